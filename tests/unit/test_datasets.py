"""Shapes and contents of the shipped tables, and what `lastfm` says of files that do not fit."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from stakes import InputError, datasets

SHIPPED = {
    "retail": (1000, 100),
    "newsvendor": (765, 18),
    "radon": (919, 4),
    "bank_marketing": (4000, 17),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_table_has_its_shape_and_no_gaps(name):
    table = getattr(datasets, name)()
    assert table.shape == SHIPPED[name]
    assert not table.isna().any(axis=None)


def test_a_third_of_retail_is_not_zero():
    counts = datasets.retail()
    assert (counts.to_numpy() > 0).mean() == pytest.approx(0.33, abs=0.005)
    assert (counts.to_numpy() >= 0).all()
    assert counts.index.is_unique
    assert counts.columns.is_unique


def test_newsvendor_has_every_day_once_and_sells_nothing_when_closed():
    days = datasets.newsvendor()
    assert set(np.diff(days.index) / np.timedelta64(1, "D")) == {1.0}
    closed = days.loc[days["is_closed"] == 1, list(datasets.DISHES)]
    assert len(closed) == 5
    assert (closed.to_numpy() == 0).all()


def test_radon_has_one_uranium_level_a_county():
    homes = datasets.radon()
    assert homes["county"].nunique() == 85
    assert (homes.groupby("county")["uranium"].nunique() == 1).all()
    assert set(homes["floor"]) == {0, 1}


def test_bank_marketing_has_yes_and_no_in_the_proportion_of_the_source():
    outcome = datasets.bank_marketing()["y"]
    assert set(outcome) == {"yes", "no"}
    # 11.70 % of all calls; a sample of 4,000 is within three standard errors of it.
    assert (outcome == "yes").mean() == pytest.approx(0.117, abs=0.015)


def test_last_fm_is_not_shipped():
    folder = Path(datasets.__file__).parent
    assert [file.name for file in folder.rglob("*") if "lastfm" in file.name.lower()] == []


def write_counts(folder, rows=992, columns=1000, entry="1"):
    file = folder / "lastfm_counts.csv.gz"
    lines = [",".join(["0"] * (columns - 1) + [entry])] * rows
    file.write_bytes(gzip.compress("\n".join(lines).encode(), compresslevel=1))
    return file


@pytest.mark.parametrize("columns", [1000, 1003])
def test_lastfm_reads_a_file_or_its_folder(tmp_path, columns):
    file = write_counts(tmp_path, columns=columns)
    for path in (file, tmp_path, str(tmp_path)):
        counts = datasets.lastfm(path)
        assert counts.shape == (992, columns)
        assert counts.to_numpy().sum() == 992
    assert list(counts.columns[:2]) == [0, 1]


def test_lastfm_takes_names_from_the_files_beside_it(tmp_path):
    write_counts(tmp_path)
    artists = ["None", '"Crosby, Stills & Nash"', *(f"band {i}" for i in range(998))]
    (tmp_path / "lastfm_artists.csv").write_text(
        "".join(f"{i},{name}\n" for i, name in enumerate(artists))
    )
    counts = datasets.lastfm(tmp_path)
    assert list(counts.columns[:2]) == ["None", "Crosby, Stills & Nash"]
    assert list(counts.index[:2]) == [0, 1]


def test_lastfm_says_what_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"there is no file or folder.*your own copy"):
        datasets.lastfm(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no lastfm_counts.csv.gz"):
        datasets.lastfm(tmp_path)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"rows": 991}, "992 rows of 1000 or more counts.*its shape is 991 x 1000"),
        ({"columns": 999}, "its shape is 992 x 999"),
        ({"entry": "1.5"}, "column 999 has values other than whole numbers"),
        ({"entry": "Radiohead"}, "column 999 has values other than"),
        ({"entry": "-1"}, "negative"),
    ],
)
def test_lastfm_refuses_what_is_not_its_matrix(tmp_path, counts, message):
    with pytest.raises(InputError, match=message):
        datasets.lastfm(write_counts(tmp_path, **counts))


def test_lastfm_refuses_a_damaged_file(tmp_path):
    file = write_counts(tmp_path)
    whole = file.read_bytes()
    for damaged in (whole[:-200], b"not gzip at all", whole[:100] + b"\0" * 50 + whole[150:]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="cannot be read as a table of counts"):
            datasets.lastfm(file)


def test_lastfm_refuses_names_that_do_not_match(tmp_path):
    write_counts(tmp_path)
    (tmp_path / "lastfm_users.csv").write_text("0,user_000949\n")
    with pytest.raises(InputError, match=r"lastfm_users.csv' must have 992 lines `index,name`"):
        datasets.lastfm(tmp_path)
