"""A table that may be larger than memory: files, or a stream of Arrow, read part by part."""

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

from stakes import checks
from stakes.errors import InputError, listed, suggestion
from stakes.host.packages import how_to_install

KINDS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
AT_ONCE = 2**16
"""Rows read at a time."""


class Source(NamedTuple):
    """One of the places that the rows come from, such as a file."""

    name: str
    schema: Any
    """Of Arrow: the names and types of its columns."""
    parts: Callable[[list[str]], Iterable[Any]]
    """Columns -> record batches of Arrow."""
    stamp: Callable[[], Any] = lambda: None
    """What changes when its content does."""
    said: int | None = None
    """How many rows it says it has."""
    stamped: Any = None
    """Its stamp when it was opened."""


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
            relation or a Polars frame (anything with `__arrow_c_stream__`).
        constants: arguments of the model that are the same for all rows, such as the number of
            shops.
        scratch: the folder for the copy, which is removed along with the result; by default the
            system's folder for temporary files. The copy takes 4 bytes for each number, 8 in double
            precision, and 8 more for each row. Each of several processes copies its share of the
            rows.

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
            object.__setattr__(self, "scratch", checks.path("`Stream(scratch=...)`", self.scratch))
        several = isinstance(self.source, list | tuple) and len(self.source)
        if not _is_arrow(self.source):
            for each in self.source if several else [self.source]:
                checks.path("`Stream(source)`", each)

    def __repr__(self) -> str:
        named = isinstance(self.source, str | Path | list)
        source = repr(self.source) if named else f"<{type(self.source).__name__}>"
        more = f", constants={dict(self.constants)!r}" if self.constants else ""
        return f"Stream({source}{more})"

    def sources(self) -> list[Source]:
        """Where the rows come from, opened and ready to be read."""
        try:
            import pyarrow as pa
        except ModuleNotFoundError:
            raise InputError(f"`Stream(...)` needs pyarrow: {how_to_install('tables')}.") from None
        if _is_arrow(self.source):
            reader = pa.RecordBatchReader.from_stream(self.source)
            return [Source("the stream", reader.schema, lambda names: _selected(reader, names))]
        return [_file(path) for path in _files(self.source)]


def _is_arrow(source: Any) -> bool:
    return hasattr(source, "__arrow_c_stream__") and not isinstance(source, type)


def _selected(reader: Any, names: list[str]) -> Iterator[Any]:
    for batch in reader:
        for start in range(0, batch.num_rows, AT_ONCE):
            yield batch.slice(start, AT_ONCE).select(names)


def _files(source: Any) -> list[Path]:
    if not isinstance(source, str | Path):
        return [path for each in source for path in _files(each)]
    path = Path(source).expanduser()
    if path.is_dir():
        found = [p for p in sorted(path.rglob("*")) if p.suffix in KINDS and p.is_file()]
        found = [p for p in found if not _is_hidden(p.relative_to(path))]
    elif path.exists():
        found = [path]
    else:
        found = [Path(each) for each in sorted(glob.glob(str(path), recursive=True))]
    if not found:
        raise InputError(f"`Stream({str(source)!r})`: there is no such Parquet or CSV file.")
    return found


def _is_hidden(path: Path) -> bool:
    """Such as the copies that an editor keeps of files: their rows would count twice."""
    return any(part.startswith(".") for part in path.parts)


def _file(path: Path) -> Source:
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

    if path.suffix not in KINDS:
        kinds = listed(sorted(KINDS))
        raise InputError(f"`Stream(...)`: {path} is not a file of a known kind: {kinds}.")
    form: Any = "parquet"
    if KINDS[path.suffix] == "csv":
        separator = "\t" if path.suffix == ".tsv" else ","
        form = ds.CsvFileFormat(parse_options=csv.ParseOptions(delimiter=separator))

    def stamp() -> tuple[int, int]:
        about = path.stat()
        return about.st_size, about.st_mtime_ns

    with explained(str(path)):
        stamped = stamp()
        [fragment] = ds.dataset(str(path), format=form).get_fragments()
        schema = fragment.physical_schema
        said = fragment.count_rows() if form == "parquet" else None

    def parts(names: list[str]) -> Iterator[Any]:
        # Few are read ahead: each is in memory.
        return iter(
            fragment.to_batches(
                columns=names, batch_size=AT_ONCE, batch_readahead=2, fragment_readahead=1
            )
        )

    return Source(str(path), schema, parts, stamp, said, stamped)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """What goes wrong while reading, in words that name the file."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"`Stream(...)` cannot read {name}: {said[0]}") from None


def check_columns(sources: Sequence[Source], names: Sequence[str]) -> None:
    """Refuse files that lack a column that others have."""
    for source in sources:
        there = list(source.schema.names)
        for name in names:
            if there.count(name) != 1:
                how = "no column" if name not in there else "more than one column"
                hint = suggestion(name, there) if name not in there else ""
                raise InputError(f"`Stream(...)`: {source.name} has {how} {name!r}.{hint}")
