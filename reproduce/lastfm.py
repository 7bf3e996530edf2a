"""The Last.fm matrix of the paper, which may not be passed on: read from the user's own copy."""

import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from stakes import checks
from stakes.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

COUNTS = "lastfm_counts.csv.gz"
USERS, ARTISTS = 992, 1000


def lastfm(path: str | os.PathLike[str]) -> "pd.DataFrame":
    """How often each of 992 users of Last.fm played each artist, most played artist first.

    The paper takes the first 100 artists and log(1 + count).

    Args:
        path: `lastfm_counts.csv.gz` or the folder that holds it: 992 rows of at least 1000
            counts, no header. Names of artists and users come from `lastfm_artists.csv` and
            `lastfm_users.csv` beside it (lines `index,name`), where they exist.

    Source: Last.fm 1K users (O. Celma, 2010), for research only, so it is not shipped: bring
    your own copy.

    Examples:
        >>> from reproduce.lastfm import lastfm
        >>> lastfm("no/such/folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        stakes.errors.InputError: `lastfm(path=...)`: there is no file or folder 'no/such/folder'...
    """
    import pandas as pd

    file = _counts_file(checks.path("`lastfm(path=...)`", path))
    counts = _counts(file)
    users = _names(file.with_name("lastfm_users.csv"), len(counts))
    artists = _names(file.with_name("lastfm_artists.csv"), counts.shape[1])
    return pd.DataFrame(
        counts,
        index=pd.Index(range(len(counts)) if users is None else users, name="user"),
        columns=pd.Index(range(counts.shape[1]) if artists is None else artists, name="artist"),
    )


def _counts_file(path: Path) -> Path:
    file = path / COUNTS if path.is_dir() else path
    if file.is_file():
        return file
    missing = f"the folder '{path}' has no {COUNTS}"
    if not path.is_dir():
        missing = f"there is no file or folder '{path}'"
    raise InputError(
        f"`lastfm(path=...)`: {missing}. The data are for research only and do not come with "
        f"stakes: give your own copy of {COUNTS}, or use `stakes.datasets.retail()`."
    )


def _counts(file: Path) -> "np.ndarray":
    import pandas as pd

    where = f"`lastfm(path=...)`: '{file}'"
    rule = f"must hold {USERS} rows of {ARTISTS} or more counts, without a header"
    try:
        table = pd.read_csv(file, header=None)
    # A damaged gzip file raises EOFError, OSError or zlib.error, depending on where it ends.
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"{where} cannot be read as a table of counts: {error}") from None
    if len(table) != USERS or table.shape[1] < ARTISTS:
        came = f"{len(table)} x {table.shape[1]}"
        raise InputError(f"{where} {rule}; its shape is {came}. Give the whole, unchanged file.")
    whole = [kind.kind in "iu" for kind in table.dtypes]
    if not all(whole):
        raise InputError(
            f"{where} {rule}; column {whole.index(False)} has values other than whole numbers."
        )
    if (table < 0).any(axis=None):
        raise InputError(f"{where} {rule}; it has a negative number.")
    return table.to_numpy()


def _names(file: Path, count: int) -> "list[str] | None":
    """The names in a file of lines `index,name`, in order; None where there is no such file."""
    import pandas as pd

    if not file.is_file():
        return None
    rule = f"must have {count} lines `index,name`, the index from 0 to {count - 1}"
    try:
        # A band called "None" or "NaN" is a name like any other.
        table = pd.read_csv(file, header=None, keep_default_na=False)
    except (ValueError, OSError) as error:
        raise InputError(f"`lastfm(path=...)`: '{file}' {rule}: {error}") from None
    if table.shape != (count, 2) or list(table[0]) != list(range(count)):
        raise InputError(
            f"`lastfm(path=...)`: '{file}' {rule}; its shape is {table.shape[0]} x "
            f"{table.shape[1]}. Remove or replace it."
        )
    return [str(name) for name in table[1]]
