"""The user's files: columns of a CSV, Parquet or .npz file, a part at a time."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from stakes.errors import InputError
from stakes.tables.delimited import Delimited, repeated, uneven_rows
from stakes.tables.dialect import Dialect
from stakes.tables.findings import Finding

if TYPE_CHECKING:
    import pandas as pd

KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".npz": "npz"}
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
Values: TypeAlias = Sequence[str] | np.ndarray
"""Words as written, or what a file with types has."""


class Raw(NamedTuple):
    """Some rows of a file."""

    columns: dict[str, Values]
    rows: int
    findings: tuple[Finding, ...] = ()


@final
@dataclass(frozen=True)
class TableFile:
    """A file with a table in it.

    Args:
        said: what the spec says of the way it is written.
    """

    path: Path
    said: Dialect = field(default_factory=Dialect)

    @cached_property
    def kind(self) -> str:
        name = self.path.name.lower()
        plain = next((name.removesuffix(end) for end in COMPRESSED if name.endswith(end)), name)
        found = KINDS.get(Path(plain).suffix)
        if found is None:
            hint = " Save the sheet as CSV." if re.search(r"\.(xlsx?|ods)$", name) else ""
            raise InputError(
                f"must be a .csv, .parquet or .npz file; got {self.path.name!r}.{hint}"
            )
        return found

    @cached_property
    def text(self) -> Delimited:
        """The file as one of separated values."""
        return Delimited(self.path, self.said)

    @property
    def dialect(self) -> Dialect:
        """How it is written; the usual way for a file that is no text."""
        return self.text.dialect if self.kind == "csv" else Dialect()

    @property
    def decimal(self) -> str:
        return self.dialect.decimal or "."

    @cached_property
    def columns(self) -> list[str]:
        """The names of all columns, without reading the rows."""
        with _explained(self.path):
            match self.kind:
                case "csv":
                    return self.text.header
                case "parquet":
                    import pyarrow.parquet as pq

                    return list(pq.read_schema(self.path).names)
                case _:
                    with np.load(self.path, allow_pickle=False) as archive:
                        return list(archive.files)

    def parts(self, columns: Sequence[str], most: int | None = None) -> Iterator[Raw]:
        """Some columns, at most so many rows at a time."""
        with _explained(self.path):
            match self.kind:
                case "csv":
                    yield from self._words(columns, most)
                case "parquet":
                    yield from _parquet(self.path, columns, most)
                case _:
                    yield from _npz(self.path, columns, most)

    def whole(self, columns: Sequence[str]) -> Raw:
        """All rows at once."""
        return next(self.parts(columns), Raw({name: [] for name in columns}, 0))

    def _words(self, columns: Sequence[str], most: int | None) -> Iterator[Raw]:
        twice = [name for name in repeated(self.columns) if name in columns]
        if twice:
            raise InputError(f"{self.path.name} has the column {twice[0]!r} more than once.")
        separator = self.text.dialect.separator or ","
        for part in self.text.parts(most):
            found = []
            if part.uneven:
                told = uneven_rows(part.uneven, self.columns, separator)
                found.append(Finding("", told.rstrip("."), rows=tuple(part.uneven)))
            yield Raw({name: part.columns[name] for name in columns}, part.rows, tuple(found))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What goes wrong while reading, in words."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"reading {path} needs {error.name}: pip install pyarrow.") from None
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        reason = getattr(error, "strerror", None) or said[0]
        raise InputError(f"cannot read {path}: {reason}.") from None


def _parquet(path: Path, columns: Sequence[str], rows: int | None) -> Iterator[Raw]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if rows is None:
            yield _raw(file.read(columns=list(columns)).to_pandas())
            return
        for batch in file.iter_batches(rows, columns=list(columns)):
            yield _raw(batch.to_pandas())


def _npz(path: Path, columns: Sequence[str], rows: int | None) -> Iterator[Raw]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in columns}
    count = max((len(array) for array in arrays.values() if array.ndim), default=0)
    for start in range(0, count, rows) if rows else (0,):
        part = slice(start, start + rows if rows else None)
        some = {n: a[part] if a.ndim and len(a) == count else a for n, a in arrays.items()}
        yield Raw(dict(some), len(range(count)[part]))


def _raw(frame: "pd.DataFrame") -> Raw:
    return Raw({str(name): _array(frame[name]) for name in frame.columns}, len(frame))


def _array(column: "pd.Series[Any]") -> np.ndarray:
    if column.dtype.kind in "biuf" and not column.isna().any():
        return column.to_numpy()
    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    values = column.astype(object)
    return np.array(
        ["" if missing else str(v) for v, missing in zip(values, values.isna(), strict=True)]
    )
