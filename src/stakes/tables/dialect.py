"""How a file of separated values is written: compression, encoding, separator, decimal sign."""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, final

from stakes.errors import InputError, listed

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}
"""How compressed files begin."""
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""How files of text may begin."""
WORDS = {"utf-8-sig": "utf-8 with a mark, as Excel writes it"}
"""Encodings that are better described than named."""
SAMPLE = 1000
"""Lines that separator and decimal sign are told from."""
BLOCK = 2**20
FRACTION = {sign: re.compile(rf"[^\d.,]*\d+{re.escape(sign)}\d+[^\d.,]*") for sign in ",."}
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")


@final
@dataclass(frozen=True)
class Dialect:
    """How a file is written. What is None has not been said, and is found out.

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
        """How a file is written, unless it is with commas, decimal points and in UTF-8."""
        said = str(replace(self, compression=None))
        return "" if said == str(Dialect()) else said


def sniffed(path: Path, said: Dialect) -> Dialect:
    """How this file is written, where that has not been said."""
    said = replace(said, compression=_compression(path))
    said = replace(said, encoding=said.encoding or _encoding(path, said))
    with text_of(path, said) as file:
        lines = list(itertools.islice(file, SAMPLE))
    separator = said.separator or max(SEPARATORS, key=lambda each: _regularity(lines, each))
    decimal = said.decimal or _decimal(lines, separator)
    return replace(said, separator=separator, decimal=decimal)


@contextmanager
def text_of(path: Path, dialect: Dialect) -> Iterator[IO[str]]:
    """The text of a file, whatever it is compressed with."""
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    with _opened(path, dialect.compression) as raw:
        try:
            with io.TextIOWrapper(raw, encoding, newline="") as text:
                yield text
        except UnicodeError as error:
            raise InputError(
                f"{path.name} is not written in {dialect.encoding}: {error}. Say in which encoding "
                f'it is, such as `encoding = "cp1252"` in [data].'
            ) from None


@contextmanager
def _opened(path: Path, compression: str | None) -> Iterator[Any]:
    if compression == "zip":
        with zipfile.ZipFile(path) as archive:
            names = [each for each in archive.namelist() if not each.endswith("/")]
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


def _compression(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(8)
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def _encoding(path: Path, dialect: Dialect) -> str:
    """UTF-8 if all of it can be read so; otherwise that of Windows in Western Europe."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _opened(path, dialect.compression) as file:
        block = file.read(BLOCK)
        mark = next((name for mark, name in MARKS.items() if block.startswith(mark)), None)
        if mark is not None:
            return mark
        try:
            while block:
                decoder.decode(block)
                block = file.read(BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _regularity(lines: list[str], separator: str) -> tuple[float, int]:
    """The share of lines with as many values as the first has names, and how many these are."""
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
