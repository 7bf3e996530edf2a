"""The folder of a run: its files, its tables, damage to them, and who may write there."""

import random
from pathlib import Path

import pytest
from projects import invoke

from stakes.app import runs
from stakes.app.runs import RunFolder
from stakes.app.runs.folder import packed, unpacked
from stakes.app.spec import read_job
from stakes.errors import InputError, StorageError

READ = {"manifest.json", "data.npz", "state.npz", "choice.npz", "refit.npz"}


FILES = READ | {"decisions.csv", "draws.nc", "log.txt"}


def test_a_run_folder_holds_its_files_and_no_code(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names == FILES


def test_a_folder_that_is_taken_is_told_with_what_is_in_it(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "note").touch()
    for folder, said in {finished: "holds a finished run.", tmp_path: "is no run."}.items():
        result = invoke("run", project / "spec.toml", "-o", folder)
        assert result.exit_code == 2
        assert said in result.stderr
        assert "resume" not in result.stderr


def test_a_folder_that_cannot_be_written_is_told(project: Path) -> None:
    result = invoke("run", project / "spec.toml", "-o", "/proc/stakes/run")
    assert result.exit_code == 2
    assert "Cannot make the run folder /proc/stakes/run" in result.stderr


def test_two_processes_do_not_work_on_one_run(copied: Path) -> None:
    folder = RunFolder(copied)
    with (
        folder.log(),
        pytest.raises(InputError, match="Another process"),
        folder.log(),
    ):
        pass


MUTABLE = ("manifest.json", "data.npz", "state.npz", "choice.npz")


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A flipped bit, a piece cut off, a piece doubled, or something else altogether."""
    how = rng.randrange(5)
    place = rng.randrange(len(content))
    if how <= 1:
        return (
            content[:place]
            + bytes([content[place] ^ (1 << rng.randrange(8))])
            + content[place + 1 :]
        )
    if how == 2:
        return content[:place]
    if how == 3:
        return content[:place] + content[place : place + 9] + content[place:]
    return rng.choice(
        [b"", b"[]", b"null", b"{}", b"PK\x03\x04", rng.randbytes(64), b'{"format": 2}']
    )


def attack(run: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(count):
        name = MUTABLE[number % len(MUTABLE)]
        before = (run / name).read_bytes()
        (run / name).write_bytes(mutated(before, rng))
        with pytest.raises((InputError, StorageError)) as caught:
            runs.reopen(run)
        assert str(run) in str(caught.value)
        (run / name).write_bytes(before)
    runs.reopen(run)


def test_every_alteration_of_what_a_run_is_read_from_is_found(copied: Path) -> None:
    attack(copied, 300, seed=1)


def test_what_a_run_only_writes_may_be_edited_or_deleted(copied: Path) -> None:
    """A spreadsheet that opens decisions.csv and saves it writes other bytes."""
    (copied / "decisions.csv").write_bytes(b"date;decision\r\n")
    (copied / "log.txt").write_text("my notes")
    (copied / "draws.nc").unlink()
    assert runs.reopen(copied).manifest.status == "done"
    assert invoke("compare", copied).exit_code == 0


@pytest.mark.slow
def test_every_one_of_two_thousand_alterations_is_found(copied: Path) -> None:
    attack(copied, 2000, seed=2)


def test_a_run_remembers_how_its_table_is_written(bakery: Path) -> None:
    """Its decisions.csv is written in the same way, though the table may have gone."""
    tables = read_job(bakery / "stakes.toml").tables
    assert tables.dialect.unusual == "semicolons between values, decimal commas, cp1252"
    assert unpacked(packed(tables)).dialect == tables.dialect
