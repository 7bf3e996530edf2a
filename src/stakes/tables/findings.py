"""What is odd about a table, in words, and how to settle it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from stakes.errors import InputError

# The most rows and words that a finding names.
SHOWN = 5


@final
@dataclass(frozen=True)
class Finding:
    """Something odd in a table.

    Attributes:
        column: its name; empty for the table as a whole.
        what: what is odd, as a clause.
        remedy: how to settle it, as a sentence.
        rows: the rows, counted from one, below the header.
        stops: whether nothing can be fitted before it is settled; otherwise it is a note.
        change: words, and what to put in their place to settle it.
        format: one of several ways in which dates may be written.
        codes: whether numbers look like codes, such as postcodes that begin with a zero.
    """

    column: str
    what: str
    remedy: str = ""
    rows: tuple[int, ...] = ()
    stops: bool = True
    change: tuple[tuple[str, str], ...] = ()
    format: str | None = None
    codes: bool = False

    def __str__(self) -> str:
        where = f"column {self.column!r}: " if self.column else ""
        return f"{where}{self.what}.{f' {self.remedy}' if self.remedy else ''}"


@final
@dataclass(frozen=True)
class Remedies:
    """How to settle findings, for those who have the table in one form.

    Each is a text with `{column}`, the name of the column.

    Attributes:
        missing: for values that are missing.
        change: for words to put in the place of others, `{pairs}`; `{key}` is the column as TOML
            needs it.
        categories: for numbers or doubtful words that are categories.
        format: for dates that may be written in several ways, of which one is `{format}`.
        unseen: for categories that the fit has not seen.
        assigns: what stands between a word and the one in its place.
    """

    missing: str
    change: str
    categories: str
    format: str
    unseen: str
    assigns: str = ": "

    def changing(self, column: str, change: Mapping[str, str]) -> str:
        """What to write so that words are changed."""
        pairs = ", ".join(f"{word!r}{self.assigns}{to!r}" for word, to in change.items())
        key = column if re.fullmatch(r"[A-Za-z0-9_-]+", column) else repr(column)
        return self.change.format(column=column, key=key, pairs=pairs)


IN_SPEC = Remedies(
    missing='Drop or fill them; `missing = "drop"` in [data] leaves such rows out.',
    change="`replace.{key} = {{ {pairs} }}` in [data]",
    categories="list the column in `data.categories`",
    format='`dates = {{ {column} = "{format}" }}` in [data]',
    unseen="If it is new, leave the row out, or fit a model that can tell what new ones are like, "
    "such as a formula with `(1 | {column})`.",
    assigns=" = ",
)
IN_FRAME = Remedies(
    missing="Drop or fill them.",
    change="`frame[{column!r}].replace({{{pairs}}})`",
    categories="say so with `frame[{column!r}].astype('category')`",
    format="`pandas.to_datetime(frame[{column!r}], format={format!r})`",
    unseen="New ones can be drawn where the model has a plate for them whose members it counts, "
    "as in `len(np.unique({column}))`.",
)
IN_STREAM = Remedies(
    missing="Drop or fill such rows.",
    change="{{{pairs}}} in the query, or where the files are written",
    categories="write it as a dictionary, as pandas does for its categories",
    format="write them as 2024-12-31",
    unseen="",
)


def refuse(where: str, faults: Sequence[object]) -> None:
    """Raise all that stops a fit, if there is something.

    Args:
        where: what has the faults, for the message.
        faults: a sentence each.

    Examples:
        >>> refuse("sales.csv", ["column 'price' is empty.", "there are no rows."])
        Traceback (most recent call last):
        ...
        stakes.errors.InputError: sales.csv has 2 faults:
          column 'price' is empty.
          there are no rows.
    """
    if len(faults) == 1:
        raise InputError(f"{where}: {faults[0]}")
    if faults:
        lines = "\n".join(f"  {fault}" for fault in faults)
        raise InputError(f"{where} has {len(faults)} faults:\n{lines}")
