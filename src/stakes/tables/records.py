"""The rows of a stream as records of numbers, which are copied to disk.

Words get a code when they are first met. What they mean is known when all rows have been read: then
each code gets its number, such as the place of a category.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax
import numpy as np

from stakes.errors import InputError, suggestion, warn
from stakes.tables.columns import Column, Hints, Kind, Values, Words
from stakes.tables.doctor import examine
from stakes.tables.findings import IN_STREAM
from stakes.tables.sources import Source, explained
from stakes.tables.values import Coding, categories_of, codes_of, holds_dates, part_of, source_of

if TYPE_CHECKING:
    import pyarrow as pa

# The field with a row's number in the table.
ROW = "#"
# Kind of a column -> what it holds, in words.
CALLED = {"words": "words", "b": "truth values", "dates": "dates", "i": "numbers", "f": "numbers"}


class Field(NamedTuple):
    """A column of numbers, or of dates or words that become numbers.

    Attributes:
        name: the field's name.
        column: the column of the sources that it is read from.
        part: the part of dates that is used, such as the weekday; None for the column itself.
        kind: "words", "dates", or NumPy's kind of its numbers.
        dtype: the type on disk, where words are stored as codes.
        meant: the meaning of words, where it is known.
        decimal: the decimal sign of text, where types are guessed, so that words may be numbers.
    """

    name: str
    column: str
    part: str | None
    kind: str
    dtype: np.dtype[Any]
    meant: Kind | None = None
    decimal: str | None = None


def name_row(starts: Mapping[str, int], row: int) -> str:
    """The name of a row of a stream, for messages.

    Args:
        starts: source -> the number of its first row.
        row: its number among all rows.
    """
    source, start = max(
        (item for item in starts.items() if item[1] <= row), key=lambda item: item[1]
    )
    return f"{row - start + 1:,} of {source}"


@final
@dataclass
class _Word:
    """A word of a stream: its code, and where and how often it occurs.

    Attributes:
        code: the code of the word.
        first: the row where it comes first.
        count: how often it occurs.
    """

    code: int
    first: int
    count: int = 0


@final
class RecordReader:
    """Reads sources as records of numbers, one after the other.

    Args:
        fields: the fields of the records.
        dtype: the type of the records, including the number of the row.

    Attributes:
        rows: the number of rows read so far.
        starts: source -> the number of its first row.
    """

    def __init__(self, fields: Sequence[Field], dtype: np.dtype[Any]) -> None:
        self.fields, self.dtype, self.rows = fields, dtype, 0
        self.starts: dict[str, int] = {}
        self._words: dict[str, dict[str, _Word]] = {f.name: {} for f in fields}

    def read(self, source: Source) -> Iterator[np.ndarray]:
        """Read a source, some rows at a time; one that changes meanwhile is refused."""
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
                    f"rows{expected}. Read only files that nobody writes to."
                )

    def _values(self, column: "pa.Array", field: Field) -> np.ndarray:
        """Return the values of a column as they are stored on disk."""
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
            where = name_row(self.starts, self.rows + row)
            raise InputError(
                f"`Stream(...)`: column {field.column!r}, row {where} has {values[row]}, which "
                f"{field.dtype} cannot hold."
            )
        return held

    def _codes(self, column: "pa.Array", name: str) -> np.ndarray:
        """The code of each word; new words get the next ones."""
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
        """What the words of all sources mean, once all rows are read.

        Args:
            outcome: the field of the outcomes, which may not be words.

        Returns:
            The categories of each field of words, and the number that each of its codes stands for.
        """
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
        """The column as the doctor sees it.

        What is odd about it is refused; where types are guessed, notes are warnings.
        """

        def names(rows: np.ndarray) -> list[str]:
            return [name_row(self.starts, start + row) for row in rows.tolist()]

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


def field_of(name: str, sources: Sequence[Source], outcome: str) -> Field:
    """Return the field for a column, which holds the same in every source.

    Args:
        name: the name of the column, or of a part of its dates.
        sources: all of them.
        outcome: the name of the outcomes, whose truth values become numbers.
    """
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
    """What a column of a source holds, by its type in Arrow."""
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
    return InputError(f"`Stream(...)`: column {column!r} is the outcome, but holds words.")
