"""Rows of a new file, in the words of the fit."""

from pathlib import Path

from messy import messy_rows, write_messy

from stakes.app.spec import NewFile, read_job


def test_labels_are_in_the_words_that_are_meant(bakery: Path, tmp_path: Path) -> None:
    """In the rows of the fit, and in new ones; row 100 says 'Bonn ' with a space."""
    job = read_job(bakery / "stakes.toml")
    assert job.spec.data.replace["Filiale"] == {"Bonn ": "Bonn"}
    assert "20.01.2024, Bonn" in job.fit.names
    assert set(job.fit.labels[:, 1]) == {"Köln, Dom", "Köln, Süd", "Ulm", "Fürth", "Bonn"}
    header, *rows = messy_rows()
    write_messy(tmp_path / "new.csv", [header, rows[99]])
    (part,) = NewFile(job, tmp_path / "new.csv").parts(10)
    assert part.names == ["20.01.2024, Bonn"]
    assert list(part.table["Filiale"]) == ["Bonn "]  # as it is handed over
