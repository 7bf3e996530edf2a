"""Where `decide` writes to: a table that grows part by part, as CSV or as Parquet."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from stakes.errors import InputError
from stakes.host import files
from stakes.host.packages import how_to_install, missing

Add: TypeAlias = Callable[[list[Any], np.ndarray], None]
"""Writes the next rows: their labels and their decisions."""


def check_output(target: Path, inputs: Iterable[Path]) -> None:
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


@contextmanager
def output(target: Path, label: str) -> Iterator[Add]:
    """What writes rows of a label and a decision to a file, which is either whole or not there."""
    table = FORMATS.get(target.suffix.lower(), _csv)
    with files.writing(target) as file, table(file, label) as add:
        yield add


@contextmanager
def _csv(file: IO[bytes], label: str) -> Iterator[Add]:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([label, "decision"])

    def add(labels: list[Any], decisions: np.ndarray) -> None:
        # As many digits as single precision has, as in decisions.csv.
        writer.writerows(zip(labels, map(str, decisions), strict=True))

    try:
        yield add
    finally:
        text.detach()


@contextmanager
def _parquet(file: IO[bytes], label: str) -> Iterator[Add]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def add(labels: list[Any], decisions: np.ndarray) -> None:
        nonlocal writer
        rows = pa.table({label: labels, "decision": decisions})
        writer = writer or pq.ParquetWriter(file, rows.schema)
        writer.write_table(rows)

    try:
        yield add
    finally:
        if writer is not None:
            writer.close()


FORMATS: dict[str, Callable[[IO[bytes], str], AbstractContextManager[Add]]] = {
    "": _csv,
    ".csv": _csv,
    ".txt": _csv,
    ".parquet": _parquet,
}
