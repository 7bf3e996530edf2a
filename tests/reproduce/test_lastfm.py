"""What `lastfm` says of files that do not fit."""

import gzip

import pytest

from reproduce.lastfm import lastfm
from stakes import InputError


def write_counts(folder, rows=992, columns=1000, entry="1"):
    file = folder / "lastfm_counts.csv.gz"
    lines = [",".join(["0"] * (columns - 1) + [entry])] * rows
    file.write_bytes(gzip.compress("\n".join(lines).encode(), compresslevel=1))
    return file


@pytest.mark.parametrize("columns", [1000, 1003])
def test_lastfm_reads_a_file_or_its_folder(tmp_path, columns):
    file = write_counts(tmp_path, columns=columns)
    for path in (file, tmp_path, str(tmp_path)):
        counts = lastfm(path)
        assert counts.shape == (992, columns)
        assert counts.to_numpy().sum() == 992
    assert list(counts.columns[:2]) == [0, 1]


def test_lastfm_takes_names_from_the_files_beside_it(tmp_path):
    write_counts(tmp_path)
    artists = ["None", '"Crosby, Stills & Nash"', *(f"band {i}" for i in range(998))]
    (tmp_path / "lastfm_artists.csv").write_text(
        "".join(f"{i},{name}\n" for i, name in enumerate(artists))
    )
    counts = lastfm(tmp_path)
    assert list(counts.columns[:2]) == ["None", "Crosby, Stills & Nash"]
    assert list(counts.index[:2]) == [0, 1]


def test_lastfm_says_what_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"there is no file or folder.*your own copy"):
        lastfm(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no lastfm_counts.csv.gz"):
        lastfm(tmp_path)


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
        lastfm(write_counts(tmp_path, **counts))


def test_lastfm_refuses_a_damaged_file(tmp_path):
    file = write_counts(tmp_path)
    whole = file.read_bytes()
    for damaged in (whole[:-200], b"not gzip at all", whole[:100] + b"\0" * 50 + whole[150:]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="cannot be read as a table of counts"):
            lastfm(file)


def test_lastfm_refuses_names_that_do_not_match(tmp_path):
    write_counts(tmp_path)
    (tmp_path / "lastfm_users.csv").write_text("0,user_000949\n")
    with pytest.raises(InputError, match=r"lastfm_users.csv' must have 992 lines `index,name`"):
        lastfm(tmp_path)
