"""Tables of the user: their columns as numbers, the same ones as in the fit, and their rows."""

from stakes.tables.categories import (
    alike,
    categories_of,
    codes_of,
    numbers_among,
)
from stakes.tables.columns import DATE_PARTS, DAYS, Coding
from stakes.tables.copying import ROW, OnDisk, Passes, Scratch, Shuffled, let_go, shuffled
from stakes.tables.delimited import Delimited, Words, repeated, uneven_rows
from stakes.tables.dialect import Dialect
from stakes.tables.doctor import Examined, examine
from stakes.tables.findings import Column, Finding, Hints, Kind, rows_named
from stakes.tables.native import TableRows, columns_in, is_table
from stakes.tables.reading import Read, Wanted, as_frame, lacking, read
from stakes.tables.sources import Raw, TableFile, Values
from stakes.tables.stream import Stream

__all__ = [
    "DATE_PARTS",
    "DAYS",
    "ROW",
    "Coding",
    "Column",
    "Delimited",
    "Dialect",
    "Examined",
    "Finding",
    "Hints",
    "Kind",
    "OnDisk",
    "Passes",
    "Raw",
    "Read",
    "Scratch",
    "Shuffled",
    "Stream",
    "TableFile",
    "TableRows",
    "Values",
    "Wanted",
    "Words",
    "alike",
    "as_frame",
    "categories_of",
    "codes_of",
    "columns_in",
    "examine",
    "is_table",
    "lacking",
    "let_go",
    "numbers_among",
    "read",
    "repeated",
    "rows_named",
    "shuffled",
    "uneven_rows",
]
