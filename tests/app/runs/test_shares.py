"""Checkpoints of several processes: each writes its rows, and what is there is complete."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from threads import together

from stakes.app.runs.folder import RunFolder
from stakes.app.runs.journal import FileJournal
from stakes.app.runs.meeting import seen_by_all
from stakes.errors import Interrupted, StorageError
from stakes.fitting import NOWHERE, Average, History, Share, State, start_history
from stakes.fitting.shares import keep

ROWS = 7
AXES = State(
    {"params": {"slope": NOWHERE, "level": 1}, "decisions": 0},
    {"mean": {"slope": NOWHERE, "level": 1}, "taken": NOWHERE},
    *(NOWHERE,) * 3,
)


def history_after(steps: int) -> History:
    """Where a fit of all rows stands, with numbers of its own after so many steps."""
    rng = np.random.default_rng(steps)
    params = {"slope": rng.normal(size=3), "level": rng.normal(size=(2, ROWS))}
    variables = {"params": params, "decisions": rng.normal(size=ROWS)}
    memory = {"mean": jax.tree.map(np.square, params), "taken": np.asarray(steps)}
    start = start_history(State(variables, memory, np.ones(()), np.asarray(steps), np.asarray(0)))
    trace = rng.normal(size=steps)
    older = jax.tree.map(np.negative, start.state.variables)
    return start._replace(
        elbo=trace,
        utility=-trace,
        finite=trace > 0,
        stage=1,
        average=Average(older=older, older_count=2),
    )


def shares_of(history: History, count: int) -> list[Share]:
    ends = np.arange(count + 1) * ROWS // count

    def part(i: int, tree: Any, axes: Any) -> Any:
        own = slice(ends[i], ends[i + 1])
        return jax.tree.map(
            lambda leaf, axis: leaf if axis == NOWHERE else leaf[(slice(None),) * axis + (own,)],
            tree,
            axes,
        )

    def one(i: int) -> History:
        average = history.average._replace(older=part(i, history.average.older, AXES.variables))
        return history._replace(state=part(i, history.state, AXES), average=average)

    return [Share(i, count, one(i), AXES) for i in range(count)]


def write(path: Path, title: str, history: History, count: int = 3) -> FileJournal:
    """A checkpoint as so many processes write it; returns the journal of the first."""
    journals = [FileJournal(path, 0, in_shares=True) for _ in range(count)]
    shares = shares_of(history, count)
    seals = [j.write_rows(title, share) for j, share in zip(journals, shares, strict=True)]
    journals[0].write_rest(title, shares[0], seals)
    return journals[0]


def assert_same(found: History, expected: History) -> None:
    for name in ("elbo", "utility", "finite"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (found.stage, found.average.older_count) == (1, 2)
    for mine, its in ((found.state, expected.state), (found.average[0], expected.average[0])):
        assert jax.tree.structure(mine) == jax.tree.structure(its)
        jax.tree.map(np.testing.assert_array_equal, mine, its)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.npz"


@pytest.mark.parametrize("count", [2, 3, ROWS])
def test_rows_of_all_processes_come_back_in_order(path: Path, count: int) -> None:
    write(path, "VI", history_after(5), count)
    assert len(names(path)) == 1 + count
    found = FileJournal(path, 0).history("VI", start_history(history_after(0).state))
    assert_same(found, history_after(5))


def test_no_file_has_the_rows_of_another_process(path: Path) -> None:
    write(path, "VI", history_after(5), 3)
    held = {}
    for file in path.parent.iterdir():
        arrays = np.load(file)
        held[file.name] = {name: arrays[name].shape for name in arrays.files}
    level = "state.variables['params']['level']"
    assert [held[f"state.VI-5.{i}-of-3.npz"][level] for i in range(3)] == [(2, 2), (2, 2), (2, 3)]
    assert f"VI/{level}" not in held["state.npz"]
    assert not any("slope" in name for i in range(3) for name in held[f"state.VI-5.{i}-of-3.npz"])


@pytest.mark.parametrize("written", range(4))
def test_a_checkpoint_that_is_cut_short_leaves_the_one_before(path: Path, written: int) -> None:
    """However many of the processes had written their rows by then."""
    write(path, "VI", history_after(5), 3)
    for share in shares_of(history_after(6), 3)[:written]:
        FileJournal(path, 0, in_shares=True).write_rows("VI", share)
    found = FileJournal(path, 0).history("VI", start_history(history_after(0).state))
    assert_same(found, history_after(5))
    write(path, "VI", history_after(8), 2)  # by another number of processes
    expected = ["state.VI-8.0-of-2.npz", "state.VI-8.1-of-2.npz", "state.npz"]
    assert names(path) == expected  # what was left of the others is gone


def test_fits_before_stay_in_their_shares_until_all_are_over(path: Path) -> None:
    write(path, "VI", history_after(5), 3)
    last = write(path, "calibrated", history_after(6), 2)
    assert len(names(path)) == 6
    last.finish()
    assert names(path) == ["state.npz"]
    journal = FileJournal(path, 0)
    for title, steps in (("VI", 5), ("calibrated", 6)):
        found = journal.history(title, start_history(history_after(0).state))
        assert_same(found, history_after(steps))


def test_one_process_resumes_and_keeps_all_in_one_file(path: Path) -> None:
    write(path, "VI", history_after(5), 3)
    journal = FileJournal(path, 0)
    journal.history("VI", start_history(history_after(0).state))
    journal.watch("VI", history_after(9))
    assert names(path) == ["state.npz"]
    found = FileJournal(path, 0).history("VI", start_history(history_after(0).state))
    assert_same(found, history_after(9))


def test_a_share_that_is_lost_damaged_or_of_another_time_is_named(path: Path) -> None:
    start = start_history(history_after(0).state)
    write(path, "VI", history_after(5), 3)
    share = path.with_name("state.VI-5.1-of-3.npz")
    content = share.read_bytes()

    def refused() -> str:
        with pytest.raises(StorageError) as error:
            FileJournal(path, 0).history("VI", start)
        return str(error.value)

    share.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    assert f"{share} is damaged" in refused()
    share.write_bytes(path.with_name("state.VI-5.0-of-3.npz").read_bytes())
    assert f"{share} is damaged" in refused()
    share.unlink()
    assert f"{share}: it does not exist" in refused()


def test_an_interrupted_run_is_saved_first(path: Path) -> None:
    [share] = shares_of(history_after(5), 1)
    stop = Interrupted("by hand", signal.SIGTERM)
    journal = FileJournal(path, 1e9, interruption=lambda: stop, in_shares=True)
    assert journal.due()
    with pytest.raises(Interrupted):
        journal.write_rest("VI", share, [journal.write_rows("VI", share)])
    found = FileJournal(path, 0).history("VI", start_history(history_after(0).state))
    assert_same(found, history_after(5))


class Notes:
    """A keeper of which one process cannot write."""

    def __init__(self, full: int | None) -> None:
        self.full, self.seals = full, list[str]()

    def rows(self, share: Share) -> str:
        if share.process == self.full:
            raise StorageError("the disk is full")
        return f"{share.process}"

    def rest(self, share: Share, seals: Sequence[str]) -> None:
        assert share.process == 0
        self.seals += seals


def test_the_first_process_keeps_the_rest_once_all_rows_are_kept() -> None:
    notes, shares = Notes(None), shares_of(history_after(5), 3)
    assert together(3, lambda on: keep(on, shares[on.index], notes)) == [None] * 3
    assert notes.seals == ["0", "1", "2"]


def test_all_end_where_one_cannot_write() -> None:
    notes, shares = Notes(1), shares_of(history_after(5), 3)
    lost = "Process 1 could not save its share of the rows."
    said = together(3, lambda on: keep(on, shares[on.index], notes))
    assert said == [lost, "the disk is full", lost]
    assert notes.seals == []


def test_each_writes_where_all_see_the_same_folder(tmp_path: Path) -> None:
    here, linked, copied = (RunFolder(tmp_path / name) for name in ("here", "linked", "copied"))
    here.path.mkdir()
    copied.path.mkdir()
    linked.path.symlink_to(here.path)

    def seen(*folders: RunFolder | None) -> list[Any]:
        return together(2, lambda on: seen_by_all(on, folders[on.index]))

    assert seen(here, None) == [RunFolder(here.path.resolve())] * 2
    assert seen(here, linked) == [here, linked]  # a disk may have another path elsewhere
    assert seen(here, copied) == [None, None]
    assert seen(here, RunFolder(tmp_path / "missing")) == [None, None]
    assert not list(here.path.iterdir())  # no sign is left
