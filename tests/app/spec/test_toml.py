"""Specs that are no TOML."""

from pathlib import Path

import pytest
from projects import invoke

from stakes.app.spec import read_job
from stakes.errors import InputError


def test_a_decimal_comma_in_a_spec_is_told(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text("[loss]\nunder = 2,60  # each\nover = 1\n")
    with pytest.raises(InputError, match=r"Write 2\.60, with a point"):
        read_job(spec)


@pytest.mark.parametrize("content", ["seed = ", "\x00", "[model]\n[model]\n"])
def test_what_is_no_toml_is_told_with_its_place(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(content)
    result = invoke("run", tmp_path / "bad.toml")
    assert result.exit_code == 2
    assert "is not TOML" in result.stderr
    assert "(at " in result.stderr
