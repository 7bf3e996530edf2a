"""Files of separated values: the dialect they are written in, and their rows, a part at a time.

Separator, decimal sign, encoding and compression are found out from the file, so that a table that
Excel has saved in Germany is read like any other.
"""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, final

from stakes.errors import InputError, listed
from stakes.tables.columns import Values
from stakes.tables.findings import Finding

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# How compressed files begin.
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}
# How files of text may begin.
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Encodings that are better described than named.
WORDS = {"utf-8-sig": "UTF-8 with a byte order mark, as Excel writes it"}
# The number of lines from which separator and decimal sign are found.
SAMPLE = 1000
# Bytes that are read at once to find the encoding.
BLOCK = 2**20
# Values with a decimal sign, and values with commas between thousands.
FRACTION = {sign: re.compile(rf"[^\d.,]*\d+{re.escape(sign)}\d+[^\d.,]*") for sign in ",."}
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")


@final
@dataclass(frozen=True)
class Dialect:
    """How a file is written. What is None has not been said, and is found out.

    Attributes:
        separator: the sign between values.
        decimal: the decimal sign.
        encoding: of the text.
        compression: gzip, bzip2, xz or zip; None for a plain file.

    Examples:
        >>> print(Dialect(";", ",", "cp1252"))
        semicolons between values, decimal commas, cp1252
        >>> Dialect(",", ".", "utf-8").unusual
        ''
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    compression: str | None = None

    def __str__(self) -> str:
        parts = [f"{SEPARATORS.get(self.separator or ',', repr(self.separator))} between values"]
        parts += ["decimal commas"] if self.decimal == "," else []
        if self.encoding is not None and self.encoding != "utf-8":
            parts.append(WORDS.get(self.encoding, self.encoding))
        return ", ".join(parts + ([self.compression] if self.compression else []))

    @property
    def unusual(self) -> str:
        """How a file is written, in words; empty for commas, decimal points and UTF-8."""
        written = str(replace(self, compression=None))
        return "" if written == str(Dialect()) else written


class Raw(NamedTuple):
    """Some rows of a file, as written.

    Attributes:
        columns: by name.
        rows: the number of rows.
        findings: rows with more or fewer values than the header has names.
    """

    columns: dict[str, Values]
    rows: int
    findings: tuple[Finding, ...] = ()


def header_of(path: Path, dialect: Dialect) -> list[str]:
    """Return the column names, without spaces around them."""
    with _records(path, dialect) as records:
        names = [name.strip() for name in next(records, [])]
    while names and not names[-1]:  # separators at the end of the line
        names.pop()
    if not names:
        raise InputError(f"cannot read {path}: it has no header with column names.")
    return names


def parts_of(
    path: Path, dialect: Dialect, columns: Sequence[str], most: int | None
) -> Iterator[Raw]:
    """Read some columns of a file; empty lines do not count as rows.

    Args:
        path: of the file.
        dialect: how it is written.
        columns: the names of the columns.
        most: the most rows at a time; None for all of them at once.
    """
    header, start = header_of(path, dialect), 0
    twice = [name for name in columns if name and header.count(name) > 1]
    if twice:
        raise InputError(f"{path.name} has the column {twice[0]!r} more than once.")
    places = [header.index(name) for name in columns]
    with _records(path, dialect) as records:
        next(records)
        while rows := list(itertools.islice(records, most)):
            uneven = _uneven(rows, len(header), start, dialect.separator)
            words = [[row[at] for row in rows] for at in places]
            yield Raw(dict(zip(columns, words, strict=True)), len(rows), uneven)
            start += len(rows)


@contextmanager
def _records(path: Path, dialect: Dialect) -> Iterator[Iterator[list[str]]]:
    """The rows of a file as lists of words, with the header first."""
    with _text_of(path, dialect) as text:
        try:
            records = csv.reader(text, delimiter=dialect.separator or ",")
            yield (record for record in records if record)
        except csv.Error as error:
            raise InputError(f"cannot read {path}: {error}.") from None


def _uneven(
    rows: list[list[str]], width: int, start: int, separator: str | None
) -> tuple[Finding, ...]:
    """Make all rows as long as the header, and say which ones were not."""
    uneven = {}
    for at, row in enumerate(rows):
        if len(row) != width:
            if len(row) < width or any(row[width:]):
                uneven[start + at + 1] = len(row)
            rows[at] = (row + [""] * width)[:width]
    if not uneven:
        return ()
    shown = listed((f"row {row} has {count}" for row, count in uneven.items()), 5)
    what = f"the header names {width} columns, but {shown} values"
    remedy = f"A value with {separator!r} in it has to be in quotes"
    return (Finding("", what, f'{remedy}: "Bonn{separator} am Markt".', tuple(uneven)),)


def sniff(path: Path, known: Dialect, *, whole: bool = True) -> Dialect:
    """Find out how a file is written, where that is not known.

    Args:
        path: of the file.
        known: what is known.
        whole: whether all of it is looked at for its encoding, and not just its beginning.
    """
    with path.open("rb") as file:
        head = file.read(8)
    packed = next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)
    known = replace(known, compression=packed)
    known = replace(known, encoding=known.encoding or _encoding(path, packed, whole))
    with _text_of(path, known) as text:
        lines = list(itertools.islice(text, SAMPLE))
    separator = known.separator or max(SEPARATORS, key=lambda sign: _regularity(lines, sign))
    return replace(known, separator=separator, decimal=known.decimal or _decimal(lines, separator))


@contextmanager
def _text_of(path: Path, dialect: Dialect) -> Iterator[IO[str]]:
    """The text of a file, whatever it is compressed with."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    with _bytes_of(path, dialect.compression) as raw:
        try:
            with io.TextIOWrapper(raw, encoding, newline="") as text:
                yield text
        except UnicodeError as error:
            raise InputError(
                f"{path.name} is not written in {dialect.encoding}: {error}. Say in which encoding "
                f'it is, such as `encoding = "cp1252"` in [data].'
            ) from None


@contextmanager
def _bytes_of(path: Path, compression: str | None) -> Iterator[Any]:
    """The content of a file, whatever it is compressed with."""
    if compression == "zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise InputError(
                    f"{path.name} must hold one file; it has {len(names)}: {listed(names)}."
                )
            with archive.open(names[0]) as file:
                yield file
        return
    opening: dict[str | None, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}
    with opening.get(compression, open)(path, "rb") as file:
        yield file


def _encoding(path: Path, compression: str | None, whole: bool) -> str:
    """UTF-8 if all of it can be read so; otherwise that of Windows in Western Europe."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _bytes_of(path, compression) as file:
        block = file.read(BLOCK)
        mark = next((name for mark, name in MARKS.items() if block.startswith(mark)), None)
        if mark is not None:
            return mark
        try:
            while block:
                decoder.decode(block)
                block = file.read(BLOCK) if whole else b""
            decoder.decode(b"", final=whole)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _regularity(lines: list[str], separator: str) -> tuple[float, int]:
    """The share of lines with as many values as the first has names, and that number."""
    widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
    if not widths or widths[0] == 1:
        return 0.0, 0
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]


def _decimal(lines: list[str], separator: str) -> str:
    """A comma where more values have one than a point; in groups of three it may mean thousands."""
    cells = [cell.strip() for row in csv.reader(lines, delimiter=separator) for cell in row]
    commas = [cell for cell in cells if FRACTION[","].fullmatch(cell)]
    points = sum(FRACTION["."].fullmatch(cell) is not None for cell in cells)
    if separator == "," and all(THOUSANDS.fullmatch(cell) for cell in commas):
        return "."
    return "," if len(commas) > points else "."
