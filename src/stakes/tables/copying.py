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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import jax
import numpy as np

from stakes.errors import InputError, StorageError, suggestion, warn
from stakes.tables.columns import Column, Hints, Kind, Values, Words
from stakes.tables.doctor import examine
from stakes.tables.findings import IN_STREAM
from stakes.tables.sources import Source, explained
from stakes.tables.values import Coding, categories_of, codes_of, holds_dates, part_of, source_of

if TYPE_CHECKING:
    import pyarrow as pa

FEWEST_FILES, MOST_FILES = 64, 512
# Files for each of several processes, at least.
FEWEST_EACH = 4
# Bytes that a file should have at most, by what the sources say of their rows.
LARGEST = 2**24
# What random numbers are for: seeds that differ by zeros at their end are the same.
FILES, ROWS = 0, 1
# The field with a row's number in the table.
ROW = "#"
# Kind of a column -> what it holds.
CALLED = {"words": "words", "b": "truth values", "dates": "dates", "i": "numbers", "f": "numbers"}


class Field(NamedTuple):
    """A column of numbers, or of dates or words that become numbers.

    Attributes:
        part: what is asked of dates.
        kind: "words", "dates", or that of its numbers as in NumPy.
        dtype: on disk; words have codes there.
        meant: what words are, where that is known.
        decimal: the decimal sign of text, where types are guessed, so that words may be numbers.
    """

    name: str
    column: str
    part: str | None
    kind: str
    dtype: np.dtype[Any]
    meant: Kind | None = None
    decimal: str | None = None


OnDisk: TypeAlias = "np.memmap[Any, Any]"


def release_pages(array: OnDisk) -> None:
    """Leave the pages of an array to the system, which has them on disk."""
    with suppress(AttributeError):  # not every system can, nor is every array on disk as a whole
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


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

    def array(self, name: str, kind: np.dtype[np.generic], shape: tuple[int, ...]) -> OnDisk:
        """Zeros on disk, with room for all of them: without, the system would end the program."""
        path, size = self.path / name, math.prod(shape) * kind.itemsize
        with self._explained(), path.open("wb") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except AttributeError:  # not every system can
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
    """The copy.

    Attributes:
        stored: of the rows on disk, where words have codes.
        dtype: of the rows as numbers.
        counts: of rows in each file, also in those of other processes.
        process: the process that has this copy, by its number.
        checksum: of all rows, in their order.
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
        return _row(self.starts, row)

    def read(self, file: int) -> np.ndarray:
        """The rows of a file, in the order of the table."""
        stored = np.fromfile(self.folder.path / str(file), self.stored)
        rows = np.empty(len(stored), self.dtype)
        for name in self.dtype.names or ():
            own = stored[name]
            rows[name] = self.places[name][own] if name in self.places else own
        return rows

    def in_order(self) -> np.ndarray:
        """The rows of all files that are here, in the order of the table, for few rows."""
        rows = np.concatenate([self.read(file) for file in self.files])
        return rows[np.argsort(rows[ROW])]


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
        rows = [np.empty(0, self._copy.dtype)]
        for number, file, part in self._stretches(start, count):
            rows.append(self._shuffled(number, file)[part])
        return np.concatenate(rows)

    def places(self, start: int, count: int) -> np.ndarray:
        """Where these rows are among the rows here, file by file as they are on disk."""
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
        if self._last is None or self._last[0] != (number, file):
            self._last = ((number, file), self._copy.read(file)[self._order(number, file)])
        return self._last[1]

    def _order(self, number: int, file: int) -> np.ndarray:
        return self._random(ROWS, number, file).permutation(int(self._copy.counts[file]))

    def _random(self, *which: int) -> np.random.Generator:
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
        names: the columns to copy.
        outcome: that of the outcomes, whose truth values become numbers.
        scratch: the folder to make the copy in.
        process: the number of this process, which copies its share of the rows.
        processes: how many have a share.
    """
    fields = [_field(name, sources, outcome) for name in names]
    stored = np.dtype([(ROW, np.int64), *((field.name, field.dtype) for field in fields)])
    rng, reader = np.random.default_rng(list(seed)), _StreamReader(fields, stored)
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


def _row(starts: Mapping[str, int], row: int) -> str:
    """What a row of a stream is called."""
    source, start = max(
        (item for item in starts.items() if item[1] <= row), key=lambda item: item[1]
    )
    return f"{row - start + 1:,} of {source}"


@final
@dataclass
class _Word:
    """What is known of a word of a stream.

    Attributes:
        first: the row where it comes first.
    """

    code: int
    first: int
    count: int = 0


@final
class _StreamReader:
    """Reads rows as records of numbers; the words met so far have a code each."""

    def __init__(self, fields: Sequence[Field], dtype: np.dtype[Any]) -> None:
        self.fields, self.dtype, self.rows = fields, dtype, 0
        self.starts: dict[str, int] = {}
        self._words: dict[str, dict[str, _Word]] = {f.name: {} for f in fields}

    def read(self, source: Source) -> Iterator[np.ndarray]:
        self.starts[source.name] = self.rows
        with explained(source.name):
            for batch in source.parts(list(dict.fromkeys(field.column for field in self.fields))):
                rows = np.empty(batch.num_rows, self.dtype)
                rows[ROW] = np.arange(self.rows, self.rows + len(rows))
                for field in self.fields:
                    rows[field.name] = self._values(batch.column(field.column), field)
                self.rows += len(rows)
                yield rows
            count = self.rows - self.starts[source.name]
            if source.stamp() != source.first_stamp or source.length not in (None, count):
                expected = f" of {source.length:,} that it said it has" if source.length else ""
                raise InputError(
                    f"`Stream(...)`: {source.name} changed while it was read, after {count:,} "
                    f"rows{expected}. Read files that nobody writes to."
                )

    def _values(self, column: "pa.Array", field: Field) -> np.ndarray:
        import pyarrow as pa
        import pyarrow.compute as pc

        if column.null_count:
            gaps = column.is_null().to_numpy(zero_copy_only=False)
            self._examine(field, np.where(gaps, np.nan, 0.0), self.rows)
        if field.kind == "words":
            return self._codes(column, field.name)
        if field.kind == "dates":
            zoned = pa.types.is_timestamp(column.type) and column.type.tz
            dates = pc.local_timestamp(column) if zoned else column
            return part_of(dates.to_numpy(zero_copy_only=False), field.part or "")
        values = self._examine(field, column.to_numpy(zero_copy_only=False), self.rows).values
        with np.errstate(over="ignore", invalid="ignore"):
            held: np.ndarray = values.astype(field.dtype)
            # Whole numbers may stand among fractions of another file, and be identifiers.
            exact = field.kind != "f" or values.dtype.kind in "iu"
            wrong = held.astype(values.dtype) != values if exact else ~np.isfinite(held)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"`Stream(...)`: column {field.column!r}, row {_row(self.starts, self.rows + row)} "
                f"has {values[row]}, which {field.dtype} cannot hold."
            )
        return held

    def _codes(self, column: "pa.Array", name: str) -> np.ndarray:
        import pyarrow as pa

        encoded, known = column.cast(pa.string()).dictionary_encode(), self._words[name]
        words = encoded.dictionary.to_pylist()
        own: np.ndarray = encoded.indices.to_numpy(zero_copy_only=False)
        _, first, counts = np.unique(own, return_index=True, return_counts=True)
        codes = np.empty(len(words), np.int32)
        for place, (word, row, count) in enumerate(zip(words, first, counts, strict=True)):
            met = known.setdefault(word, _Word(len(known), self.rows + int(row)))
            met.count += int(count)
            codes[place] = met.code
        return np.asarray(codes[own])

    def coding(self, outcome: str) -> tuple[Coding, dict[str, np.ndarray]]:
        """What the words of all sources mean, and the number of each code."""
        coding, places = Coding(), {}
        for field in self.fields:
            if field.kind != "words":
                continue
            words, met = list(self._words[field.name]), self._words[field.name].values()
            counts = np.array([word.count for word in met])
            column = self._examine(field, Words(words, counts, np.array([w.first for w in met])))
            if field.part is not None:
                places[field.name] = part_of(column.values, field.part)
            elif column.kind is Kind.DATES:
                raise InputError(f"`Stream(...)`: {holds_dates(field.column)}")
            elif column.kind is Kind.NUMBERS and field.decimal:
                whole = column.values.dtype.kind == "b" and field.name == outcome
                kind = jax.dtypes.canonicalize_dtype(np.int32 if whole else column.values.dtype)
                places[field.name] = column.values.astype(kind)
            elif field.name == outcome:
                raise _words_for_outcomes(field.column)
            else:
                if column.kind is Kind.NUMBERS:
                    warn(
                        f"`Stream(...)`: column {field.column!r} is text, and all its values are "
                        f"numbers. They are taken as categories."
                    )
                categories = categories_of([np.array(words)])
                coding.categories[field.name] = tuple(categories)
                places[field.name] = codes_of(words, categories).astype(np.int32)
        return coding, places

    def _examine(self, field: Field, values: Values | Words, start: int = 0) -> Column:
        """A column as the doctor sees it; what is odd about it is refused, or warned about."""

        def names(rows: np.ndarray) -> list[str]:
            return [_row(self.starts, start + row) for row in rows.tolist()]

        hints = {field.column: Hints(field.meant)}
        seen = examine(
            {field.column: values},
            hints,
            decimal=field.decimal or ".",
            names=names,
            remedies=IN_STREAM,
        )
        for finding in seen.findings:
            if finding.stops:
                raise InputError(f"`Stream(...)`: {finding}")
            if field.decimal is not None:
                warn(f"`Stream(...)`: {finding}")
        return seen.columns[field.column]


def _field(name: str, sources: Sequence[Source], outcome: str) -> Field:
    """What a column holds, the same in every source."""
    import pyarrow.types as types

    column, part = source_of(name, sources[0].schema.names)
    for source in sources:
        there = list(source.schema.names)
        if there.count(column) != 1:
            how = "no column" if column not in there else "more than one column"
            hint = suggestion(column, there) if column not in there else ""
            raise InputError(f"`Stream(...)`: {source.name} has {how} {column!r}.{hint}")
    kinds = [_kind(column, source) for source in sources]
    for kind, source in zip(kinds, sources, strict=True):
        if CALLED[kind] != CALLED[kinds[0]]:
            raise InputError(
                f"`Stream(...)`: {source.name}, column {column!r} holds {CALLED[kind]}; in "
                f"{sources[0].name} it holds {CALLED[kinds[0]]}."
            )
    kind = "f" if "f" in kinds else kinds[0]
    if part is not None and kind not in ("words", "dates"):
        raise InputError(f"`Stream(...)`: column {column!r} must hold dates; it holds numbers.")
    if kind == "dates" and part is None:
        raise InputError(f"`Stream(...)`: {holds_dates(column)}")
    if kind in ("words", "dates"):
        decimal = sources[0].decimal
        if kind == "words" and name == outcome and decimal is None:
            raise _words_for_outcomes(column)
        declared = all(types.is_dictionary(s.schema.field(column).type) for s in sources)
        meant = Kind.DATES if part is not None else Kind.CATEGORIES if declared else None
        return Field(name, column, part, kind, np.dtype(np.int32), meant, decimal)
    if kind == "b":
        return Field(name, column, None, kind, np.dtype(np.int32 if name == outcome else bool))
    plain = np.dtype(float if kind == "f" else int)
    return Field(name, column, None, kind, np.dtype(jax.dtypes.canonicalize_dtype(plain)))


def _kind(name: str, source: Source) -> str:
    import pyarrow.types as types

    form = source.schema.field(name).type
    while types.is_dictionary(form):
        form = form.value_type
    for kind, holds in (
        ("words", lambda t: types.is_string(t) or types.is_large_string(t)),
        ("f", types.is_floating),
        ("i", types.is_integer),
        ("b", types.is_boolean),
        ("dates", lambda t: types.is_date(t) or types.is_timestamp(t)),
    ):
        if holds(form):
            return kind
    raise InputError(
        f"`Stream(...)`: {source.name}, column {name!r} is of type {form}; it must hold numbers, "
        f"dates, truth values or words. Convert it where the file is written, or in the query."
    )


def _words_for_outcomes(column: str) -> InputError:
    return InputError(f"`Stream(...)`: column {column!r} has the outcomes, and holds words.")
