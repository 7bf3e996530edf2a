"""Tables in a few words: how their files are written, and what their columns hold."""

from collections.abc import Mapping

from stakes.tables import Column, Kind, TableFile

MOST_NAMED = 12
"""Categories."""


def written(file: TableFile) -> str:
    return str(file.dialect) if file.kind == "csv" else file.kind


def summaries(columns: Mapping[str, Column]) -> list[str]:
    """What each column holds."""
    return [f"{name}: {summary_of(column)}" for name, column in columns.items()]


def summary_of(column: Column) -> str:
    """What a column holds: a range, or categories with their counts."""
    there = column.values[~column.missing] if column.values.ndim == 1 else column.values
    if not there.size:
        return f"no {column.kind}"
    if column.kind is Kind.CATEGORIES and there.ndim == 1:
        counts = column.counts()
        shown = ", ".join(f"{word!r} {count}" for word, count in counts[:MOST_NAMED])
        more = f", and {len(counts) - MOST_NAMED} more" if len(counts) > MOST_NAMED else ""
        return f"{len(counts)} categories: {shown}{more}"
    if column.kind is Kind.NUMBERS:
        return f"numbers from {there.min():g} to {there.max():g}"
    words = there.astype(str).tolist()
    return f"{column.kind} from {min(words)} to {max(words)}"
