"""All mistakes of a spec are reported at once."""

import copy
from pathlib import Path

import pytest
from projects import SHORT, put, toml

from stakes.app.spec import SpecError, read_job


def test_all_mistakes_are_told_at_once(spec_file: Path) -> None:
    spec = copy.deepcopy(SHORT)
    wrong = {
        "seed": -1,
        "model.python": "model.py:lines",
        "data.columns.x": "xx",
        "data.label": "nam",
        "loss.q": 2.0,
        "fit.step": 5,
    }
    for path, value in wrong.items():
        put(path, value)(spec)
    spec_file.write_text(toml(spec))
    with pytest.raises(SpecError) as caught:
        read_job(spec_file)
    assert sorted(mistake.path for mistake in caught.value.mistakes) == sorted(wrong)
