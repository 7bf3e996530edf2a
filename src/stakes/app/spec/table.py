"""The user's table: columns of a CSV, Parquet or .npz file as arguments of the model."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes.app.spec.messages import Collector
from stakes.errors import InputError, suggestion
from stakes.tables import categories_of, codes_of

if TYPE_CHECKING:
    import pandas as pd

MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"]
KINDS = (".csv", ".parquet", ".npz")
Vocabulary = Mapping[str, list[str]]
"""Column -> its categories, in the order of their codes."""


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Rows to fit or decide about: the model's arguments, and a label for each row."""

    arguments: dict[str, Any]
    labels: np.ndarray | None
    vocabulary: dict[str, list[str]] = field(default_factory=dict)
    groups: dict[str, np.ndarray] = field(default_factory=dict)
    """Column -> values that are equal where rows belong together."""
    beside: dict[str, np.ndarray] = field(default_factory=dict)
    """What rows have beside the model's arguments: `by`, their group, and `today`, a decision."""

    def rows(self, chosen: np.ndarray, like: int) -> "Table":
        """Some of the rows; arguments that are not as long as the table stay whole."""

        def some(values: dict[str, Any]) -> dict[str, Any]:
            return {
                name: value[chosen] if np.ndim(value) and len(value) == like else value
                for name, value in values.items()
            }

        return Table(
            some(self.arguments),
            None if self.labels is None else self.labels[chosen],
            self.vocabulary,
            some(self.groups),
            {name: values[chosen] for name, values in self.beside.items()},
        )


def column_names(path: Path) -> list[str]:
    """The columns of a file, without reading its rows."""
    try:
        match path.suffix.lower():
            case ".csv":
                import pandas as pd

                return [str(name) for name in pd.read_csv(path, nrows=0).columns]
            case ".parquet":
                import pyarrow.parquet as pq

                return list(pq.read_schema(path).names)
            case ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    return list(archive.files)
    except ModuleNotFoundError as error:
        raise InputError(f"reading {path} needs {error.name}: pip install pyarrow.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise InputError(f"cannot read {path}: {reason}.") from None
    raise InputError(f"must be a {', '.join(KINDS)} file; got {path.name!r}.")


def check_columns(where: str, path: Path, wanted: Mapping[str, str], found: Collector) -> None:
    """`wanted`: the field of the spec that names a column -> the column."""
    with found.at(where):
        there = column_names(path)
        for asking, name in wanted.items():
            if name not in there:
                found.add(asking, f"{path.name} has no column {name!r}.{suggestion(name, there)}")


def chunks(
    path: Path, columns: list[str], text: list[str], rows: int | None
) -> Iterator[dict[str, np.ndarray]]:
    """Column -> values, `rows` rows at a time; `text` columns as strings, as they are written."""
    try:
        match path.suffix.lower():
            case ".csv":
                yield from map(_arrays, _csv(path, columns, text, rows))
            case ".parquet":
                yield from map(_arrays, _parquet(path, columns, rows))
            case _:
                yield from _npz(path, columns, rows)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0]
        raise InputError(f"cannot read {path}: {reason}.") from None


def _csv(
    path: Path, columns: list[str], text: list[str], rows: int | None
) -> "Iterator[pd.DataFrame]":
    import pandas as pd

    options: dict[str, Any] = {
        "usecols": columns,
        "dtype": dict.fromkeys(text, str),
        "keep_default_na": False,
        "na_values": {name: MISSING for name in columns if name not in text},
        "low_memory": False,
    }
    if rows is None:
        yield pd.read_csv(path, **options)
        return
    with pd.read_csv(path, chunksize=rows, **options) as reader:
        yield from reader


def _parquet(path: Path, columns: list[str], rows: int | None) -> "Iterator[pd.DataFrame]":
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if rows is None:
            yield file.read(columns=columns).to_pandas()
            return
        for batch in file.iter_batches(rows, columns=columns):
            yield batch.to_pandas()


def _npz(path: Path, columns: list[str], rows: int | None) -> Iterator[dict[str, np.ndarray]]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in columns}
    if rows is None:
        yield arrays
        return
    count = max((len(array) for array in arrays.values() if array.ndim), default=0)
    for start in range(0, count, rows):
        part = slice(start, start + rows)
        yield {n: a[part] if a.ndim and len(a) == count else a for n, a in arrays.items()}


def _arrays(frame: "pd.DataFrame") -> dict[str, np.ndarray]:
    return {str(name): _array(frame[name]) for name in frame.columns}


def _array(column: "pd.Series[Any]") -> np.ndarray:
    if column.dtype.kind in "biuf" and not column.isna().any():
        return column.to_numpy()
    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan)
    values = column.astype(object)
    return np.array(
        ["" if missing else str(v) for v, missing in zip(values, values.isna(), strict=True)]
    )


def by_name(
    arguments: Mapping[str, Any], dates: Iterable[str], first_row: int = 0
) -> "pd.DataFrame":
    """Columns as a table for a formula, rows counted from one; these are read as dates."""
    import pandas as pd

    columns = dict(arguments)
    for name in dates:
        words = np.asarray(columns[name]).astype(str)
        found = pd.Series(pd.to_datetime(words, format="ISO8601", errors="coerce"))
        wrong = np.flatnonzero(found.isna() & (words != ""))
        if len(wrong):
            raise InputError(
                f"column {name!r}, row {first_row + wrong[0] + 1}: {str(words[wrong[0]])!r} is no "
                f"date; write it as 2024-12-31."
            )
        columns[name] = found.to_numpy()
    rows = len(next(iter(columns.values())))
    return pd.DataFrame(columns, index=pd.RangeIndex(first_row + 1, first_row + rows + 1))


def encoded(
    name: str, values: np.ndarray, vocabulary: Vocabulary, first_row: int = 0
) -> np.ndarray:
    """Numbers as they are, categories as their codes; a missing value is a mistake."""
    text = values.dtype.kind in "US"
    bad = values == "" if text else ~np.isfinite(values) if values.dtype.kind == "f" else None
    if bad is not None and bad.any():
        rows = np.unique(np.argwhere(bad)[:, 0])
        raise InputError(
            f"column {name!r} has {len(rows)} rows without a finite value, the first in row "
            f"{first_row + rows[0] + 1}. Drop or fill them."
        )
    if name not in vocabulary:
        if text:
            raise InputError(
                f"column {name!r} must hold numbers; row {first_row + 1} has {str(values[0])!r}."
            )
        return values
    values = values.astype(str)
    codes = codes_of(values.ravel().tolist(), vocabulary[name]).reshape(values.shape)
    unknown = np.argwhere(codes < 0)
    if len(unknown):
        value = str(values[tuple(unknown[0])])
        raise InputError(
            f"column {name!r}, row {first_row + unknown[0][0] + 1}: {value!r} was not in the data "
            f"of the fit.{suggestion(value, vocabulary[name])}"
        )
    return codes


def categories_in(parts: list[np.ndarray], *, forced: bool) -> list[str] | None:
    """The categories of a column of strings, or of one that the spec says has categories."""
    if not forced and not any(part.dtype.kind in "US" for part in parts):
        return None
    return categories_of(parts)
