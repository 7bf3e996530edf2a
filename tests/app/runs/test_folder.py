"""Tables of a run as arrays."""

from pathlib import Path

from stakes.app.runs.folder import packed, unpacked
from stakes.app.spec import read_job


def test_a_run_remembers_how_its_table_is_written(bakery: Path) -> None:
    """Its decisions.csv is written in the same way, though the table may have gone."""
    tables = read_job(bakery / "stakes.toml").tables
    assert tables.dialect.unusual == "semicolons between values, decimal commas, cp1252"
    assert unpacked(packed(tables)).dialect == tables.dialect
