"""A copy of a table on disk in random order: any stretch of it is a random sample of the rows.

Every row goes to one of many files, chosen at random, so that each of these is a random sample of
all rows, however they were ordered, and small enough to be held in memory and shuffled there.
Several processes share the files: each reads all rows once, and copies those of its own files.
"""

import math
import mmap
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from stakes.errors import InputError, StorageError
from stakes.tables.records import ROW, RecordReader, field_of, name_row
from stakes.tables.sources import Source
from stakes.tables.values import Coding

if TYPE_CHECKING:
    pass

# The number of files: more are more alike, fewer are written in larger pieces.
FEWEST_FILES, MOST_FILES = 64, 512
# The fewest files for each of several processes, so that a pass of each differs from the last.
FEWEST_EACH = 4
# The most bytes of a file, as far as sources say how many rows they have: it is shuffled in memory.
LARGEST = 2**24
# Purposes of random numbers, which tell their seeds apart: seeds that differ by zeros at their end
# alone are the same.
FILES, ROWS = 0, 1
OnDisk: TypeAlias = "np.memmap[Any, Any]"


def release_pages(array: OnDisk) -> None:
    """Leave the pages of an array to the system, which has them on disk."""
    with suppress(AttributeError):  # not every system can, nor is every array on disk as a whole
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


@final
class Scratch:
    """A folder that is removed when nothing refers to it any more.

    Args:
        within: the folder to make it in; None for that of the system.
    """

    def __init__(self, within: Path | None) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="stakes-", dir=within))
        except OSError as error:
            raise InputError(
                f"`Stream(scratch={str(within)!r})`: no folder can be made there "
                f"({error.strerror})."
            ) from None
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder now, as where a process ends at once."""
        self._remove()

    def __getstate__(self) -> dict[str, Path]:
        """The path alone travels: the process that made the folder removes it."""
        return {"path": self.path}

    def append(self, name: str, values: np.ndarray) -> None:
        """Write at the end of a file, which is closed again: a system may allow few open ones."""
        with self._explained(), (self.path / name).open("ab") as file:
            file.write(values.tobytes())

    def array(self, name: str, kind: np.dtype[np.generic], shape: tuple[int, ...]) -> OnDisk:
        """Zeros on disk, with room for all of them: without, the system would end the program.

        Args:
            name: of the file.
            kind: of the numbers.
            shape: of the array.
        """
        path, size = self.path / name, math.prod(shape) * kind.itemsize
        with self._explained(), path.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except AttributeError:  # not every system can
                file.truncate(size)
        return np.memmap(path, kind, mode="r+", shape=shape)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Report what goes wrong while writing, in words."""
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"`Stream(...)`: {self.path} cannot be written to ({error.strerror}). Name a "
                f"folder with more room, `Stream(..., scratch=...)`."
            ) from None


@final
@dataclass(frozen=True, eq=False)
class Shuffled:
    """A copy of a table on disk, in random order.

    Attributes:
        folder: that it is in.
        stored: the type of the rows on disk, where words have codes.
        dtype: the type of the rows as numbers.
        counts: the number of rows in each file, also in those of other processes.
        process: the number of the process that has this copy.
        processes: how many there are.
        checksum: of all rows, in their order.
        coding: the categories of columns of words.
        places: column of words -> the number that each code on disk stands for, such as the place
            of a category.
        starts: source -> the number of its first row.
    """

    folder: Scratch
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    counts: np.ndarray
    process: int
    processes: int
    checksum: int
    coding: Coding
    places: Mapping[str, np.ndarray]
    starts: Mapping[str, int]

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def files(self) -> np.ndarray:
        """The numbers of the files that this process has."""
        return np.arange(self.process, len(self.counts), self.processes)

    @property
    def firsts(self) -> np.ndarray:
        """The place of each file's first row among the rows here; only of files that are here."""
        made = np.zeros_like(self.counts)
        made[self.files] = np.cumsum(self.counts[self.files]) - self.counts[self.files]
        return made

    def elsewhere(self) -> "Shuffled":
        """The same for a process that has none of the files."""
        return replace(self, process=len(self.counts))

    @property
    def shares(self) -> np.ndarray:
        """The number of rows that each process has."""
        starts = range(self.processes)
        return np.array([self.counts[i :: self.processes].sum() for i in starts])

    def place(self, row: int) -> str:
        """The name of a row: its number, and its source."""
        return name_row(self.starts, row)

    def read(self, file: int) -> np.ndarray:
        """Return the rows of a file, in the order of the table."""
        stored = np.fromfile(self.folder.path / str(file), self.stored)
        rows = np.empty(len(stored), self.dtype)
        for name in self.dtype.names or ():
            own = stored[name]
            rows[name] = self.places[name][own] if name in self.places else own
        return rows

    def in_order(self) -> np.ndarray:
        """Return the rows of all files that are here, in the order of the table; for few rows."""
        rows = np.concatenate([self.read(file) for file in self.files])
        return rows[np.argsort(rows[ROW])]


@final
class Passes:
    """Passes over the rows, one after the other, each in another order with every row once.

    They are a pure function of the seed, so that a fit can be resumed anywhere. In a pass, the
    files come in random order, and the rows of each file as well, of which one at a time is in
    memory.

    Args:
        copy: the rows.
        seed: of the orders.
    """

    def __init__(self, copy: Shuffled, seed: Sequence[int]) -> None:
        self._copy, self._seed = copy, list(seed)
        self._last: tuple[tuple[int, int], np.ndarray] | None = None

    def take(self, start: int, count: int) -> np.ndarray:
        """Take `count` rows, from the row `start` of the first pass on."""
        rows = [np.empty(0, self._copy.dtype)]
        for number, file, part in self._stretches(start, count):
            rows.append(self._shuffled(number, file)[part])
        return np.concatenate(rows)

    def places(self, start: int, count: int) -> np.ndarray:
        """The places of these rows among the rows here, file by file as they are on disk."""
        places, firsts = [np.empty(0, np.int64)], self._copy.firsts
        for number, file, part in self._stretches(start, count):
            places.append(firsts[file] + self._order(number, file)[part])
        return np.concatenate(places)

    def _stretches(self, start: int, count: int) -> Iterator[tuple[int, int, slice]]:
        """Parts of files, each with the number of its pass."""
        copy = self._copy
        while count:
            number, at = divmod(start, int(copy.shares[copy.process]))
            order = self._random(FILES, number).permutation(copy.files)
            ends = np.cumsum(copy.counts[order])
            place = int(np.searchsorted(ends, at, side="right"))
            end = min(at + count, int(ends[place]))
            first = int(ends[place] - copy.counts[order[place]])
            yield number, int(order[place]), slice(at - first, end - first)
            start, count = start + end - at, count - (end - at)

    def _shuffled(self, number: int, file: int) -> np.ndarray:
        """The rows of a file in the order of a pass; the last file is kept."""
        if self._last is None or self._last[0] != (number, file):
            self._last = ((number, file), self._copy.read(file)[self._order(number, file)])
        return self._last[1]

    def _order(self, number: int, file: int) -> np.ndarray:
        """The order of a file's rows in a pass."""
        return self._random(ROWS, number, file).permutation(int(self._copy.counts[file]))

    def _random(self, *which: int) -> np.random.Generator:
        """Random numbers for one purpose."""
        return np.random.Generator(np.random.Philox(seed=[*self._seed, *which]))


def copy_shuffled(
    sources: Sequence[Source],
    names: Sequence[str],
    outcome: str,
    seed: Sequence[int],
    scratch: Path | None = None,
    *,
    process: int = 0,
    processes: int = 1,
) -> Shuffled:
    """Read all rows once: count them, check them, and copy them in random order.

    Args:
        sources: where the rows come from.
        names: the columns to copy.
        outcome: that of the outcomes, whose truth values become numbers.
        seed: of the order.
        scratch: the folder to make the copy in; None for that of the system.
        process: the number of this process, which copies its share of the rows.
        processes: how many processes have a share.
    """
    fields = [field_of(name, sources, outcome) for name in names]
    stored = np.dtype([(ROW, np.int64), *((field.name, field.dtype) for field in fields)])
    rng, reader = np.random.default_rng(list(seed)), RecordReader(fields, stored)
    size = sum(source.length or 0 for source in sources) * stored.itemsize
    files = int(np.clip(size // LARGEST, FEWEST_FILES, MOST_FILES))
    files = max(files, FEWEST_EACH * processes)
    folder, counts, checksum = Scratch(scratch), np.zeros(files, np.int64), 0
    for source in sources:
        for rows in reader.read(source):
            where = rng.integers(files, size=len(rows), dtype=np.int16)
            order = np.argsort(where, kind="stable")
            sizes = np.bincount(where, minlength=files)
            checksum = zlib.crc32(rows.tobytes(), checksum)
            for file, part in enumerate(np.split(rows[order], np.cumsum(sizes)[:-1])):
                if file % processes == process:
                    folder.append(str(file), part)
            counts += sizes
    if not reader.rows:
        raise InputError("`Stream(...)` has no rows.")
    coding, places = reader.coding(outcome)
    meant = {name: places[name].dtype if name in places else stored[name] for name in names}
    dtype = np.dtype([(ROW, np.int64), *meant.items()])
    starts = reader.starts
    return Shuffled(
        folder, stored, dtype, counts, process, processes, checksum, coding, places, starts
    )
