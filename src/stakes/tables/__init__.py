"""Tables of the user: their columns as numbers, the same ones as in the fit, and their rows."""

from stakes.tables.categories import (
    alike,
    categories_of,
    codes_of,
    numbers_among,
)
from stakes.tables.columns import DATE_PARTS, DAYS, Coding
from stakes.tables.native import TableRows, columns_in, is_table
from stakes.tables.reading import Read, Wanted, as_frame, lacking, read

__all__ = [
    "DATE_PARTS",
    "DAYS",
    "Coding",
    "Read",
    "TableRows",
    "Wanted",
    "alike",
    "as_frame",
    "categories_of",
    "codes_of",
    "columns_in",
    "is_table",
    "lacking",
    "numbers_among",
    "read",
]
