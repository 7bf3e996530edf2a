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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import jax
import numpy as np

from stakes.errors import InputError, StorageError
from stakes.tables.categories import alike, categories_of
from stakes.tables.columns import Coding
from stakes.tables.stream import Source, check_columns, explained

FEWEST_FILES, MOST_FILES = 64, 512
FEWEST_EACH = 4
"""Files for each of several processes, at least."""
LARGEST = 2**24
"""Bytes that a file should have at most, by what the sources say of their rows."""
FILES, ROWS = 0, 1
"""What random numbers are for: seeds that differ by zeros at their end are the same."""
ROW = "#"
"""The field with a row's number in the table."""


class Field(NamedTuple):
    """A column of numbers, or of words that become numbers."""

    name: str
    kind: str
    """"words", or that of its numbers as in NumPy."""
    dtype: np.dtype[Any]


OnDisk: TypeAlias = "np.memmap[Any, Any]"


def let_go(array: OnDisk) -> None:
    """Leave the pages of an array to the system, which has them on disk."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


@final
class Scratch:
    """A folder that is removed when nothing refers to it any more."""

    def __init__(self, within: Path | None) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix="stakes-", dir=within))
        except OSError as error:
            raise InputError(
                f"`Stream(scratch={str(within)!r})`: no folder can be made there "
                f"({error.strerror})."
            ) from None
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def append(self, name: str, values: np.ndarray) -> None:
        """Write at the end of a file. None stays open: a system may allow fewer than there are."""
        with self._explained(), (self.path / name).open("ab") as file:
            file.write(values.tobytes())

    def array(self, name: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> OnDisk:
        """Zeros on disk, with room for all of them: without, the system would end the program."""
        path, size = self.path / name, math.prod(shape) * kind.itemsize
        with self._explained(), path.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        return np.memmap(path, kind, mode="r+", shape=shape)

    @contextmanager
    def _explained(self) -> Iterator[None]:
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
    """The copy."""

    folder: Scratch
    dtype: np.dtype[Any]
    counts: np.ndarray
    """Of rows in each file, also in those of other processes."""
    process: int
    """The process that has this copy, by its number."""
    processes: int
    checksum: int
    """Of all rows, in their order."""
    coding: Coding
    places: Mapping[str, np.ndarray]
    """Column of words -> the place among the categories of each code in the files."""
    starts: Mapping[str, int]
    """Source -> the number of its first row."""

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def files(self) -> np.ndarray:
        """Those that this process has, by their numbers."""
        return np.arange(self.process, len(self.counts), self.processes)

    @property
    def firsts(self) -> np.ndarray:
        """The place of each file's first row among the rows here; only of files that are here."""
        made = np.zeros_like(self.counts)
        made[self.files] = np.cumsum(self.counts[self.files]) - self.counts[self.files]
        return made

    @property
    def shares(self) -> np.ndarray:
        """The rows that each process has."""
        starts = range(self.processes)
        return np.array([self.counts[i :: self.processes].sum() for i in starts])

    def place(self, row: int) -> str:
        """Where a row comes from."""
        source, start = max(
            (each for each in self.starts.items() if each[1] <= row), key=lambda each: each[1]
        )
        return f"{source}, row {row - start + 1:,}"

    def read(self, file: int) -> np.ndarray:
        """The rows of a file, in the order of the table, with words as places in the coding."""
        found = np.fromfile(self.folder.path / str(file), self.dtype)
        for name, places in self.places.items():
            found[name] = places[found[name]]
        return found

    def in_order(self) -> np.ndarray:
        """The rows of all files that are here, in the order of the table, for few rows."""
        found = np.concatenate([self.read(file) for file in self.files])
        return found[np.argsort(found[ROW])]


@final
class Passes:
    """One pass over the rows here after the other, each in another order: every row once in each.

    A pure function of the seed, so that a fit can be resumed anywhere.
    """

    def __init__(self, copy: Shuffled, seed: Sequence[int]) -> None:
        self._copy, self._seed = copy, list(seed)
        self._last: tuple[tuple[int, int], np.ndarray] | None = None

    def take(self, start: int, count: int) -> np.ndarray:
        """So many rows, from the row `start` of the first pass on."""
        found = [np.empty(0, self._copy.dtype)]
        for number, file, part in self._stretches(start, count):
            found.append(self._shuffled(number, file)[part])
        return np.concatenate(found)

    def places(self, start: int, count: int) -> np.ndarray:
        """Where these rows are among the rows here, file by file as they are on disk."""
        found, firsts = [np.empty(0, np.int64)], self._copy.firsts
        for number, file, part in self._stretches(start, count):
            found.append(firsts[file] + self._order(number, file)[part])
        return np.concatenate(found)

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
        if self._last is None or self._last[0] != (number, file):
            self._last = ((number, file), self._copy.read(file)[self._order(number, file)])
        return self._last[1]

    def _order(self, number: int, file: int) -> np.ndarray:
        return self._random(ROWS, number, file).permutation(int(self._copy.counts[file]))

    def _random(self, *which: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(seed=[*self._seed, *which]))


def shuffled(
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
        names: the columns to copy.
        outcome: that of the outcomes, whose truth values become numbers.
        scratch: the folder to make the copy in.
        process: the number of this process, which copies its share of the rows.
        processes: how many have a share.
    """
    check_columns(sources, names)
    fields = [_field(name, sources, outcome) for name in names]
    dtype = np.dtype([(ROW, np.int64), *((each.name, each.dtype) for each in fields)])
    copying = _Copying(fields, dtype, np.random.default_rng(list(seed)))
    bytes_said = sum(source.said or 0 for source in sources) * dtype.itemsize
    files = int(np.clip(bytes_said // LARGEST, FEWEST_FILES, MOST_FILES))
    files = max(files, FEWEST_EACH * processes)
    folder, counts, starts, checksum = Scratch(scratch), np.zeros(files, np.int64), {}, 0
    for source in sources:
        starts[source.name] = copying.rows
        for rows in copying.read(source):
            where = copying.rng.integers(files, size=len(rows), dtype=np.int16)
            order = np.argsort(where, kind="stable")
            here = np.bincount(where, minlength=files)
            checksum = zlib.crc32(rows.tobytes(), checksum)
            for file, part in enumerate(np.split(rows[order], np.cumsum(here)[:-1])):
                if file % processes == process:
                    folder.append(str(file), part)
            counts += here
    if not copying.rows:
        raise InputError("`Stream(...)` has no rows.")
    coding, places = copying.coding()
    return Shuffled(folder, dtype, counts, process, processes, checksum, coding, places, starts)


class _Copying:
    """Rows as records of numbers; the words met so far have a code each."""

    def __init__(
        self, fields: Sequence[Field], dtype: np.dtype[Any], rng: np.random.Generator
    ) -> None:
        self.fields, self.dtype, self.rng, self.rows = fields, dtype, rng, 0
        self._words: dict[str, dict[str, int]] = {f.name: {} for f in fields if f.kind == "words"}

    def read(self, source: Source) -> Iterator[np.ndarray]:
        with explained(source.name):
            before = self.rows
            for batch in source.parts([each.name for each in self.fields]):
                made = np.empty(batch.num_rows, self.dtype)
                made[ROW] = np.arange(self.rows, self.rows + len(made))
                for each in self.fields:
                    where = _Where(source.name, each.name, self.rows - before)
                    made[each.name] = self._values(batch.column(each.name), each, where)
                self.rows += len(made)
                yield made
            found = self.rows - before
            if source.stamp() != source.stamped or source.said not in (None, found):
                said = "" if source.said is None else f" of {source.said:,} that it said it has"
                raise InputError(
                    f"`Stream(...)`: {source.name} changed while it was read, after {found:,} "
                    f"rows{said}. Read files that nobody writes to."
                )

    def _values(self, column: Any, field: Field, where: "_Where") -> np.ndarray:
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise where.fault(row, "has no value. Drop or fill such rows")
        if field.kind == "words":
            return self._codes(column, field.name, where)
        values = column.to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore", invalid="ignore"):
            held: np.ndarray = values.astype(field.dtype)
            # Whole numbers may stand among fractions of another file, and be identifiers.
            exact = field.kind != "f" or values.dtype.kind in "iu"
            wrong = held.astype(values.dtype) != values if exact else ~np.isfinite(held)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise where.fault(row, f"has {values[row]}, which {field.dtype} cannot hold")
        return held

    def _codes(self, column: Any, name: str, where: "_Where") -> np.ndarray:
        import pyarrow as pa

        found, known = column.cast(pa.string()).dictionary_encode(), self._words[name]
        words = found.dictionary.to_pylist()
        codes = np.array([known.setdefault(word, len(known)) for word in words], np.int32)
        made: np.ndarray = codes[found.indices.to_numpy(zero_copy_only=False)]
        if "" in known:
            raise where.fault(int(np.flatnonzero(made == known[""])[0]), "has no value")
        return made

    def coding(self) -> tuple[Coding, dict[str, np.ndarray]]:
        """The categories of all files, in order; and the place among them of each code."""
        categories, places = {}, {}
        for name, words in self._words.items():
            ordered = categories_of([np.array(list(words))])
            close = alike(ordered)
            if close:
                pair = " and ".join(map(repr, close[0]))
                raise InputError(
                    f"`Stream(...)`: column {name!r} has words that differ by spaces or capital "
                    f"letters alone: {pair}. Make them one."
                )
            number = {word: place for place, word in enumerate(ordered)}
            categories[name] = tuple(ordered)
            places[name] = np.array([number[word] for word in words], np.int32)
        return Coding(categories), places


class _Where(NamedTuple):
    source: str
    column: str
    start: int

    def fault(self, row: int, what: str) -> InputError:
        at = f"{self.source}, column {self.column!r}, row {self.start + row + 1:,}"
        return InputError(f"`Stream(...)`: {at} {what}.")


def _field(name: str, sources: Sequence[Source], outcome: str) -> Field:
    """What a column holds, the same in every source."""
    kinds = [_kind(name, source) for source in sources]
    number = {"i", "u", "f"}
    for kind, source in zip(kinds, sources, strict=True):
        if kind != kinds[0] and not {kind, kinds[0]} <= number:
            raise InputError(
                f"`Stream(...)`: {source.name}, column {name!r} holds {_called(kind)}; in "
                f"{sources[0].name} it holds {_called(kinds[0])}."
            )
    kind = next((k for k in "fiub" if k in kinds), kinds[0])
    if kind == "words":
        if name == outcome:
            raise InputError(f"`Stream(...)`: column {name!r} has the outcomes, and holds words.")
        return Field(name, kind, np.dtype(np.int32))
    if kind == "b":
        return Field(name, kind, np.dtype(np.int32 if name == outcome else bool))
    plain = np.dtype(float if kind == "f" else int)
    return Field(name, kind, np.dtype(jax.dtypes.canonicalize_dtype(plain)))


def _kind(name: str, source: Source) -> str:
    import pyarrow.types as types

    found = source.schema.field(name).type
    while types.is_dictionary(found):
        found = found.value_type
    for kind, holds in (
        ("words", lambda t: types.is_string(t) or types.is_large_string(t)),
        ("f", types.is_floating),
        ("i", types.is_integer),
        ("b", types.is_boolean),
    ):
        if holds(found):
            return kind
    raise InputError(
        f"`Stream(...)`: {source.name}, column {name!r} is of type {found}; it must hold numbers, "
        f"truth values or words. Convert it where the file is written, or in the query."
    )


def _called(kind: str) -> str:
    return {"words": "words", "b": "truth values"}.get(kind, "numbers")
