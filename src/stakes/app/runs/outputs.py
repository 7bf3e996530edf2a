"""Files for people and other programs: decisions as CSV or Parquet, draws as netCDF.

A CSV file is written as the user's table is, so that the same program opens it. Numbers have as
many digits as their type holds.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stakes.app.runs.solution import TODAY, Solution
from stakes.app.spec import Table
from stakes.errors import InputError
from stakes.host import files
from stakes.host.packages import how_to_install, missing
from stakes.study import Cases
from stakes.tables import Dialect

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Columns: TypeAlias = Mapping[str, Sequence[Any] | np.ndarray]
# A function that writes the next rows; None and nan are no values.
Add: TypeAlias = Callable[[Columns], None]
# Columns of tables of decisions.
DECISION, LOW, HIGH = "decision", "predicted_low", "predicted_high"
# The most draws of latents held at once: 256 MB in double precision.
MOST_VALUES = 2**25


def check_output(target: Path, inputs: Iterable[Path], *, overwrite: bool = True) -> None:
    """Refuse what cannot be written, and what would overwrite something that is read.

    Args:
        target: the file to write.
        inputs: the files that are read.
        overwrite: whether it may exist.
    """
    for path in inputs:
        if target.exists() and path.exists() and target.samefile(path):
            raise InputError(
                f"`-o {target}` would overwrite {path}, which is an input. Choose another file."
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
        raise InputError(f"{target} exists already; pass `--overwrite` to replace it.")


@contextmanager
def output(target: Path, dialect: Dialect | None = None) -> Iterator[Add]:
    """Open a table for writing; it is either whole or not there.

    Args:
        target: a .csv or .parquet file, a device or a pipe.
        dialect: how CSV is written.

    Yields:
        A function that writes the next rows.
    """
    table = FORMATS.get(target.suffix.lower(), _csv)
    with files.writing(target) as file, table(file, dialect or Dialect()) as add:
        yield add


@contextmanager
def _csv(file: IO[bytes], dialect: Dialect) -> Iterator[Add]:
    """Write rows as CSV."""
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
    """Write rows as Parquet; the first ones set the types."""
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


def write_decisions(path: Path, solution: Solution) -> None:
    """Write what the strategies decide about all rows of a run, in the dialect of its table.

    There is a row for each instance: first those of the fit, then those held out.
    """
    import pandas as pd

    parts = solution.parts.items()
    rows = pd.concat([_decisions(part, solution, cases, table) for part, (cases, table) in parts])
    with output(path, solution.job.tables.dialect) as add:
        add({str(name): rows[name].to_numpy() for name in rows.columns})


def _decisions(part: str, solution: Solution, cases: Cases, table: Table) -> "pd.DataFrame":
    """A row for each instance, with all that the run decides about it.

    Args:
        part: the name of the rows, such as "fit".
        solution: what decides.
        cases: the rows, as cases.
        table: the same rows, as they were read.
    """
    import pandas as pd

    data, observed = solution.job.spec.data, cases.observed
    first = cases.vi_decisions
    first = first.isel(part=0, drop=True) if "part" in first.dims else first
    rows: pd.DataFrame = first.to_series().index.to_frame(index=False)
    if table.labels is not None and cases.instances.shape == (len(table.labels),):
        rows = pd.DataFrame(table.labels, columns=pd.Index(data.label))
    columns: dict[str, Any] = {"part": part, **by_part(DECISION, solution.labels(cases))}
    columns |= by_part("decision_vi", cases.vi_decisions)
    if "LCVI" in cases.posteriors:
        columns |= by_part("decision_calibrated", cases.decisions)
    if cases.problem.action is None:  # otherwise the outcome depends on the decision
        central = cases.forecast(solution.posterior()).central
        columns |= {LOW: central[:, 0], HIGH: central[:, -1]}
    columns["observed"] = np.nan if observed is None else observed.values.ravel()
    if TODAY in solution.names:
        columns["decision_today"] = table.beside["today"].ravel()
    return rows.assign(**columns)


def by_part(name: str, decisions: "xr.DataArray") -> dict[str, np.ndarray]:
    """A column of decisions; one for each part, where they have several.

    Args:
        name: of the column.
        decisions: for all cases.
    """
    if "part" not in decisions.dims:
        return {name: decisions.values.ravel()}
    parts = decisions.coords["part"].values
    return {f"{name}_{part}": decisions.sel(part=part).values.ravel() for part in parts}


def write_draws(path: Path, solution: Solution) -> None:
    """Write draws from both posteriors, for ArviZ and the like; fewer of them for large models."""
    import pandas as pd
    import xarray as xr

    result, fits = solution.result, solution.fits
    latents = result.approximation.latents.values()
    size = sum(int(np.prod(latent.shape)) for latent in latents)
    draws = int(np.clip(MOST_VALUES // max(size, 1), 10, 1000))
    parts = [result.posterior(fit, draws=draws) for fit in fits.values()]
    merged = xr.concat(parts, dim=pd.Index(list(fits), name="fit"), join="exact")
    # A name such as "scope/site" would be a path within the file.
    merged = merged.rename({n: str(n).replace("/", ".") for n in merged if "/" in str(n)})
    files.write(path, bytes(merged.to_netcdf(engine="scipy")))
