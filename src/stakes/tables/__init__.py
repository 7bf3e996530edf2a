"""Tables of the user: their columns as numbers, the same ones as in the fit, and their rows."""

from stakes.tables.coding import (
    DATE_PARTS,
    DAYS,
    Coding,
    categories_of,
    codes_of,
    holds_dates,
    part_of,
    source_of,
)
from stakes.tables.copying import ROW, OnDisk, Passes, Scratch, Shuffled, let_go, shuffled
from stakes.tables.dataframes import (
    Read,
    TableRows,
    Wanted,
    columns_in,
    is_table,
    lacking,
    read,
)
from stakes.tables.delimited import Delimited, Dialect, Raw
from stakes.tables.doctor import (
    Column,
    Examined,
    Finding,
    Hints,
    Kind,
    Values,
    examine,
    refuse,
    rows_named,
)
from stakes.tables.sources import Stream, TableFile

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
    "categories_of",
    "codes_of",
    "columns_in",
    "examine",
    "holds_dates",
    "is_table",
    "lacking",
    "let_go",
    "part_of",
    "read",
    "refuse",
    "rows_named",
    "shuffled",
    "source_of",
]
