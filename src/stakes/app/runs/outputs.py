"""Where `decide` writes to: a table that grows part by part, as CSV or as Parquet."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from stakes.errors import InputError
from stakes.host import files
from stakes.host.packages import how_to_install, missing
from stakes.tables import Dialect

Columns: TypeAlias = Mapping[str, Sequence[Any] | np.ndarray]
Add: TypeAlias = Callable[[Columns], None]
"""Writes the next rows; None and nan are no values."""


def check_output(target: Path, inputs: Iterable[Path], *, overwrite: bool = True) -> None:
    """Refuse what cannot be written, and what would overwrite something that is read."""
    for path in inputs:
        if target.exists() and path.exists() and target.samefile(path):
            raise InputError(
                f"`-o {target}` would overwrite {path}, which is read from. Choose another file."
            )
    suffix = target.suffix.lower()
    if suffix not in FORMATS and not files.is_stream(target):
        raise InputError(
            f"`-o {target}` must be a .csv or .parquet file, or `-` for standard output; got "
            f"{suffix!r}."
        )
    if suffix == ".parquet" and missing("pyarrow"):
        raise InputError(
            f"`-o {target}` needs pyarrow: {how_to_install('parquet')}; or write a .csv file."
        )
    if not overwrite and target.is_file() and target.stat().st_size:
        raise InputError(f"{target} exists already; say `--overwrite` to replace it.")


@contextmanager
def output(target: Path, dialect: Dialect | None = None) -> Iterator[Add]:
    """What writes rows to a file, which is either whole or not there; CSV in this dialect."""
    table = FORMATS.get(target.suffix.lower(), _csv)
    with files.writing(target) as file, table(file, dialect or Dialect()) as add:
        yield add


@contextmanager
def _csv(file: IO[bytes], dialect: Dialect) -> Iterator[Add]:
    encoding = dialect.encoding or "utf-8"
    # A name of an action need not be in the encoding of the table.
    text = io.TextIOWrapper(file, encoding, "backslashreplace", newline="", write_through=True)
    writer = csv.writer(text, delimiter=dialect.separator or ",", lineterminator="\n")
    decimal, begun = dialect.decimal or ".", False

    def add(columns: Columns) -> None:
        nonlocal begun
        if not begun:
            writer.writerow(columns)
            begun = True
        cells = (_cells(values, decimal) for values in columns.values())
        writer.writerows(zip(*cells, strict=True))

    try:
        yield add
    finally:
        text.detach()


def _cells(values: Sequence[Any] | np.ndarray, decimal: str) -> list[str]:
    """Words as they are; numbers with as many digits as their type has, whole ones without any."""
    if not isinstance(values, np.ndarray) or values.dtype.kind in "US":
        return ["" if value is None else str(value) for value in values]
    if values.dtype.kind == "f":
        shown = ["" if np.isnan(value) else str(value).removesuffix(".0") for value in values]
        return [word.replace(".", decimal) for word in shown] if decimal != "." else shown
    return ["" if value is None else str(value) for value in values]


@contextmanager
def _parquet(file: IO[bytes], dialect: Dialect) -> Iterator[Add]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def add(columns: Columns) -> None:
        nonlocal writer
        rows = pa.table(dict(columns), schema=None if writer is None else writer.schema)
        writer = writer or pq.ParquetWriter(file, rows.schema)
        writer.write_table(rows)

    try:
        yield add
    finally:
        if writer is not None:
            writer.close()


FORMATS: dict[str, Callable[[IO[bytes], Dialect], AbstractContextManager[Add]]] = {
    "": _csv,
    ".csv": _csv,
    ".txt": _csv,
    ".parquet": _parquet,
}
