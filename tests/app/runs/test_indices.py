"""Numbers beyond the array that they index."""

from pathlib import Path

import pytest

from stakes.app.spec import read_job
from stakes.errors import InputError, OutOfRangeError


def test_a_number_beyond_its_plate_is_told_with_its_row(project: Path) -> None:
    from stakes.app.runs.solution import columns_named

    job = read_job(project / "spec.toml")
    told = r"column 'kind', row 12: \(7\) is not among the 3"
    with pytest.raises(InputError, match=told), columns_named(job, first_row=10):
        raise OutOfRangeError("", argument="group", value=7, row=1, size=3)
