"""The folder of a run: its files, their checksums, and a lock against a second process.

It holds arrays, text and JSON alone, and no code. Every file is replaced as a whole, so that a run
that is killed at any moment can be resumed.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, final

import numpy as np

from stakes import checks
from stakes.app.runs import manifest
from stakes.app.runs.manifest import Manifest
from stakes.app.spec import FIT, HELD_OUT, Table, Tables
from stakes.errors import InputError, StorageError
from stakes.host import files
from stakes.host.trees import load_arrays, save_arrays
from stakes.study import below
from stakes.tables import Dialect

DATA, STATE, CHOICE, REFIT = "data.npz", "state.npz", "choice.npz", "refit.npz"
DECISIONS, DRAWS, LOG, REPORT = "decisions.csv", "draws.nc", "log.txt", "report.html"
NEEDED = (DATA, STATE, CHOICE, REFIT)
# The kinds of arrays that a table has in data.npz.
KINDS = ("arguments", "groups", "beside", "labels")
# Made from the files needed, for others to read, who may edit or delete them.
EXPORTS = (DECISIONS, DRAWS, LOG, REPORT)


@final
@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    Attributes:
        path: of the folder.
    """

    path: Path

    def __post_init__(self) -> None:
        checks.assign(self, path=checks.path("`RunFolder(path)`", self.path))

    def create(self, first: Manifest, tables: Tables) -> None:
        """Make the folder with data and manifest in it; it appears whole or not at all."""
        path = self.path
        check_free(path)
        with files.explained("make the run folder", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
            try:
                made.chmod(0o777 & ~files.umask())
                save_arrays(made / DATA, packed(tables))
                sums = {DATA: files.sha256(made / DATA)}
                manifest.save(made, first.model_copy(update={"files": sums}))
                os.replace(made, path)
                files.sync_folder(path.parent)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that a run is read from."""
        return tuple(self / name for name in (manifest.NAME, *NEEDED))

    def manifest(self) -> Manifest:
        """Read the manifest."""
        return manifest.load(self.path)

    def update(self, **fields: object) -> Manifest:
        """Write the manifest again, with the checksums of all files as they are now."""
        present = [n for n in (*NEEDED, *EXPORTS) if (self / n).exists()]
        sums = {name: files.sha256(self / name) for name in present}
        updated = self.manifest().model_copy(update={**fields, "files": sums})
        manifest.save(self.path, updated)
        return updated

    def verified(self) -> Manifest:
        """Read the manifest, and verify the checksums of the files that a run is read from.

        The state keeps changing during a run; its file has a checksum of its own.
        """
        kept = self.manifest()
        unknown = set(kept.files) - {*NEEDED, *EXPORTS}
        if unknown:
            raise StorageError(f"{self / manifest.NAME} lists files that no run has: {unknown}.")
        there = {
            STATE: kept.status == "done",
            CHOICE: kept.choice is not None,
            REFIT: kept.refit is not None,
        }
        for name in (DATA, *(name for name, is_there in there.items() if is_there)):
            if files.sha256(self / name) != kept.files.get(name):
                raise StorageError(
                    f"{self / name} is damaged or was changed: its content does not match the "
                    f"checksum in {manifest.NAME}. Restore it from a copy, or run again."
                )
        return kept

    def tables(self) -> Tables:
        """The tables of the run, as they were when it was begun."""
        return unpacked(load_arrays(self / DATA))

    @contextmanager
    def log(self) -> Iterator[IO[str]]:
        """Open the log, which also keeps a second process from working on the run.

        Examples:
            >>> import pathlib, tempfile
            >>> folder = RunFolder(pathlib.Path(tempfile.mkdtemp()))
            >>> with folder.log() as log:
            ...     print("begun", file=log)
            >>> (folder / "log.txt").read_text()
            'begun\\n'
        """
        with files.explained("write", self / LOG):
            log = (self / LOG).open("a", encoding="utf-8")
        with log:
            _lock(log, self.path)
            yield log


def check_free(path: Path) -> None:
    """Refuse a folder for a new run in which there is something already.

    Raises:
        InputError: with what is in it, and how to go on.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path} {_occupied(path)} Choose another folder with `-o`.")


def _occupied(path: Path) -> str:
    """What is in the way of a new run."""
    if not (path / manifest.NAME).exists():
        return "exists already, and is no run."
    if manifest.load(path).status == "done":
        return "holds a finished run."
    return f"holds a run that is not finished: `stakes resume {path}` resumes it."


def _lock(file: IO[str], path: Path) -> None:
    """Refuse to work on a run on which another process is at work."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"Another process is at work on {path}. Wait for it to end.") from None


def packed(tables: Tables) -> dict[str, np.ndarray]:
    """Write tables as named arrays: `fit/arguments/x`, `held out/groups/store`, `words/store`."""
    arrays = {f"words/{name}": np.array(words) for name, words in tables.fit.vocabulary.items()}
    written = asdict(replace(tables.dialect, compression=None))
    arrays |= {f"written/{name}": np.array(how) for name, how in written.items() if how is not None}
    for part, table in tables.parts.items():
        labels = {} if table.labels is None else {"rows": table.labels}
        kinds = (table.arguments, table.groups, table.beside, labels)
        for kind, values in zip(KINDS, kinds, strict=True):
            given = {name: value for name, value in values.items() if value is not None}
            arrays |= {f"{part}/{kind}/{name}": np.asarray(value) for name, value in given.items()}
    return arrays


def unpacked(arrays: Mapping[str, np.ndarray]) -> Tables:
    """Read back what `packed` has written."""
    vocabulary = {name: words.tolist() for name, words in below("words/", arrays).items()}

    def table(part: str) -> Table:
        arguments, groups, beside, labels = (below(f"{part}/{kind}/", arrays) for kind in KINDS)
        # Single numbers and strings as such: a model may use them as sizes.
        values = {name: a if a.ndim else a.item() for name, a in arguments.items()}
        return Table(values, labels.get("rows"), vocabulary, groups, beside)

    parts = {name.partition("/")[0] for name in arrays} - {"words", "written"}
    if not {FIT} <= parts <= {FIT, HELD_OUT}:
        raise StorageError("data.npz does not hold the data of a run.")
    dialect = Dialect(**{name: str(how) for name, how in below("written/", arrays).items()})
    return Tables(table(FIT), table(HELD_OUT) if HELD_OUT in parts else None, dialect=dialect)
