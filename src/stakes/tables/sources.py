"""Where tables come from: a file, read whole or a part at a time, or a stream beyond memory."""

import glob
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from stakes import checks
from stakes.errors import InputError
from stakes.host.packages import how_to_install
from stakes.tables.dataframes import values_of
from stakes.tables.delimited import Dialect, Raw, header_of, parts_of, sniff

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

KINDS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".npz": "npz"}
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
# The files of a folder that a stream takes.
STREAMED = (".parquet", ".csv", ".tsv")
# Rows of a stream that are read at a time: as many as take some megabytes.
AT_ONCE = 2**16


def _plain(path: Path) -> str:
    """The ending of a file's name, without that of its compression."""
    name = path.name.lower()
    return Path(
        next((name.removesuffix(end) for end in COMPRESSED if name.endswith(end)), name)
    ).suffix


@final
@dataclass(frozen=True)
class TableFile:
    """A file with a table in it.

    Args:
        path: of a .csv, .parquet or .npz file.
        known: what the spec says of the way it is written.
    """

    path: Path
    known: Dialect = field(default_factory=Dialect)

    @cached_property
    def kind(self) -> str:
        """What kind of file it is: csv, parquet or npz."""
        kind = KINDS.get(_plain(self.path))
        if kind is None:
            is_sheet = re.search(r"\.(xlsx?|ods)$", self.path.name.lower())
            hint = " Save the sheet as CSV." if is_sheet else ""
            raise InputError(
                f"must be a .csv, .parquet or .npz file; got {self.path.name!r}.{hint}"
            )
        return kind

    @cached_property
    def dialect(self) -> Dialect:
        """How it is written; the usual way for a file that is no text."""
        return sniff(self.path, self.known) if self.kind == "csv" else Dialect()

    @property
    def written(self) -> str:
        """How it is written, in words."""
        return str(self.dialect) if self.kind == "csv" else self.kind

    @property
    def decimal(self) -> str:
        """The decimal sign of its words."""
        return self.dialect.decimal or "."

    @cached_property
    def columns(self) -> list[str]:
        """The names of all columns, without reading the rows."""
        with _explained(self.path):
            match self.kind:
                case "csv":
                    return header_of(self.path, self.dialect)
                case "parquet":
                    import pyarrow.parquet as pq

                    return list(pq.read_schema(self.path).names)
                case _:
                    with np.load(self.path, allow_pickle=False) as archive:
                        return list(archive.files)

    def parts(self, columns: Sequence[str], most: int | None = None) -> Iterator[Raw]:
        """Read some columns.

        Args:
            columns: their names.
            most: the most rows at a time; None for all of them at once.
        """
        with _explained(self.path):
            match self.kind:
                case "csv":
                    yield from parts_of(self.path, self.dialect, columns, most)
                case "parquet":
                    yield from _parquet(self.path, columns, most)
                case _:
                    yield from _npz(self.path, columns, most)

    def whole(self, columns: Sequence[str]) -> Raw:
        """All rows at once."""
        return next(self.parts(columns), Raw({name: [] for name in columns}, 0))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Report what goes wrong while reading, in words."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"reading {path} needs {error.name}: pip install pyarrow.") from None
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"cannot read {path}: {reason or _first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _parquet(path: Path, columns: Sequence[str], most: int | None) -> Iterator[Raw]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if most is None:
            parts: Iterable[Any] = [file.read(columns=list(columns))]
        else:
            parts = file.iter_batches(most, columns=list(columns))
        for part in parts:
            frame: pd.DataFrame = part.to_pandas()
            yield Raw({str(name): values_of(frame[name]) for name in frame.columns}, len(frame))


def _npz(path: Path, columns: Sequence[str], most: int | None) -> Iterator[Raw]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in columns}
    count = max((len(array) for array in arrays.values() if array.ndim), default=0)
    for start in range(0, count, most) if most else (0,):
        part = slice(start, start + most if most else None)
        some = {n: a[part] if a.ndim and len(a) == count else a for n, a in arrays.items()}
        yield Raw(dict(some), len(range(count)[part]))


class Source(NamedTuple):
    """One of the places that the rows of a stream come from, such as a file.

    Attributes:
        name: of the file.
        schema: the columns and their types.
        parts: from the names of columns to their rows, some at a time.
        stamp: what changes when the content of the file does.
        length: how many rows it says it has; None where it does not say.
        first_stamp: the stamp when it was opened.
        decimal: the decimal sign of text, whose types are guessed; None where columns have types.
    """

    name: str
    schema: "pa.Schema"
    parts: "Callable[[list[str]], Iterable[pa.RecordBatch]]"
    stamp: Callable[[], object] = lambda: None
    length: int | None = None
    first_stamp: object = None
    decimal: str | None = None


@final
@dataclass(frozen=True, eq=False)
class Stream:
    """A table that may be larger than memory, as the data of `calibrate`.

    Its rows are read once and copied, in random order, to a folder on disk; the fit takes its
    minibatches from there. The model is one that takes minibatches: the plate of its rows has a
    `subsample_size=`.

    Args:
        source: a Parquet or CSV file, a folder of such files, a pattern such as
            `"sales/2024-*.parquet"`, or a list of these; or an Arrow stream, such as a DuckDB
            relation or a Polars frame (anything with `__arrow_c_stream__`). Separator, decimal
            sign and encoding of a CSV file are found from its beginning.
        constants: arguments of the model that are the same for all rows, such as the number of
            shops.
        scratch: the folder for the copy, which is removed along with the result; by default the
            system's folder for temporary files. The copy takes 4 bytes for each number, 8 in double
            precision, and 8 more for each row. If there are several processes, each copies its
            share of the rows.

    Examples:
        >>> import stakes
        >>> stakes.Stream("sales/*.parquet", constants={"shops": 40})
        Stream('sales/*.parquet', constants={'shops': 40})
    """

    source: Any
    constants: Mapping[str, Any] = field(default_factory=dict)
    scratch: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.constants, Mapping):
            rule = "a mapping from arguments to values"
            raise checks.refused("`Stream(constants=...)`", rule, self.constants)
        if self.scratch is not None:
            checks.assign(self, scratch=checks.path("`Stream(scratch=...)`", self.scratch))
        several = isinstance(self.source, list | tuple) and len(self.source)
        if not _is_arrow(self.source):
            for path in self.source if several else [self.source]:
                checks.path("`Stream(source)`", path)

    def __repr__(self) -> str:
        named = isinstance(self.source, str | Path | list)
        source = repr(self.source) if named else f"<{type(self.source).__name__}>"
        more = f", constants={dict(self.constants)!r}" if self.constants else ""
        return f"Stream({source}{more})"

    def sources(self) -> list[Source]:
        """Open the files or the stream that rows come from."""
        try:
            import pyarrow as pa
        except ModuleNotFoundError:
            raise InputError(f"`Stream(...)` needs pyarrow: {how_to_install('tables')}.") from None
        if _is_arrow(self.source):
            reader = pa.RecordBatchReader.from_stream(self.source)
            return [Source("the stream", reader.schema, lambda names: _selected(reader, names))]
        return [_source(path) for path in _files(self.source)]


def _is_arrow(source: object) -> bool:
    """Whether this is an Arrow stream, such as a DuckDB relation or a Polars frame."""
    return hasattr(source, "__arrow_c_stream__") and not isinstance(source, type)


def _selected(reader: "pa.RecordBatchReader", names: list[str]) -> "Iterator[pa.RecordBatch]":
    """Some columns of a stream, few rows at a time."""
    for batch in reader:
        for start in range(0, batch.num_rows, AT_ONCE):
            yield batch.slice(start, AT_ONCE).select(names)


def _files(source: Any) -> list[Path]:
    """The files that a path, a folder, a pattern or a list of these stands for."""
    if not isinstance(source, str | Path):
        return [path for part in source for path in _files(part)]
    path = Path(source).expanduser()
    if path.is_dir():
        paths = [p for p in sorted(path.rglob("*")) if _plain(p) in STREAMED and p.is_file()]
        # Such as the copies that an editor keeps of files: their rows would count twice.
        is_hidden = [any(n.startswith(".") for n in p.relative_to(path).parts) for p in paths]
        paths = [p for p, hidden in zip(paths, is_hidden, strict=True) if not hidden]
    elif path.exists():
        paths = [path]
    else:
        paths = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
    if not paths:
        raise InputError(f"`Stream({str(source)!r})`: there is no such Parquet or CSV file.")
    return paths


def _source(path: Path) -> Source:
    """A file of a stream; separator, decimal sign and encoding are found from its beginning."""
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

    kind = KINDS.get(_plain(path))
    if kind not in ("csv", "parquet"):
        raise InputError(f"`Stream(...)`: {path} is not a .csv or .parquet file.")

    def stamp() -> tuple[int, int]:
        about = path.stat()
        return about.st_size, about.st_mtime_ns

    with explained(str(path)):
        first_stamp, form, decimal = stamp(), ds.ParquetFileFormat(), None
        if kind == "csv":
            dialect = sniff(path, Dialect(), whole=False)
            decimal = dialect.decimal
            encoding = "utf8" if dialect.encoding in ("utf-8", "utf-8-sig") else dialect.encoding
            form = ds.CsvFileFormat(
                parse_options=csv.ParseOptions(delimiter=dialect.separator),
                convert_options=csv.ConvertOptions(decimal_point=decimal),
                read_options=csv.ReadOptions(encoding=encoding),
            )
        [fragment] = ds.dataset(str(path), format=form).get_fragments()
        schema = fragment.physical_schema
        length = fragment.count_rows() if kind == "parquet" else None

    def parts(names: list[str]) -> Iterator["pa.RecordBatch"]:
        # Few are read ahead: each is in memory.
        return iter(
            fragment.to_batches(
                columns=names, batch_size=AT_ONCE, batch_readahead=2, fragment_readahead=1
            )
        )

    return Source(str(path), schema, parts, stamp, length, first_stamp, decimal)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Report what goes wrong while a stream is read, in words that name the file."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"`Stream(...)` cannot read {name}: {_first_line(error)}") from None
