"""Files that people and other programs read: decisions as CSV, draws as netCDF."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stakes.app.runs.outputs import output
from stakes.app.runs.solution import TODAY, Solution
from stakes.host import files
from stakes.study import Cases

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

MOST_VALUES = 2**25
"""Draws of latents held at once."""


def write_decisions(path: Path, parts: Mapping[str, Cases], solution: Solution) -> None:
    """A row for each instance, part by part, written as the table of the fit is."""
    import pandas as pd

    job, tables = solution.job, []
    own_rows = {"fit": job.fit, "held out": job.held_out}
    for part, cases in parts.items():
        own = own_rows[part]
        table = _decisions(part, cases, solution, None if own is None else own.labels)
        if TODAY in solution.names and own is not None and "today" in own.beside:
            table["decision_today"] = own.beside["today"].ravel()
        tables.append(table)
    rows = pd.concat(tables)
    with output(path, job.tables.dialect) as add:
        add({str(name): rows[name].to_numpy() for name in rows.columns})


def _decisions(
    part: str, cases: Cases, solution: Solution, labels: np.ndarray | None
) -> "pd.DataFrame":
    import pandas as pd

    data, observed, shape = solution.job.spec.data, cases.observed, cases.instances.shape
    first = cases.vi_decisions
    first = first.isel(part=0, drop=True) if "part" in first.dims else first
    rows: pd.DataFrame = first.to_series().index.to_frame(index=False)
    if labels is not None and shape == (len(labels),):
        rows = pd.DataFrame(labels, columns=pd.Index(data.label if data else []))
    rows = rows.assign(
        part=part,
        **by_part("decision", solution.labels(cases)),
        **by_part("decision_vi", cases.vi_decisions),
    )
    if "LCVI" in cases.posteriors:
        rows = rows.assign(**by_part("decision_calibrated", cases.decisions))
    if cases.problem.action is None:  # otherwise what comes depends on the decision
        central = solution.forecast(cases).central
        rows = rows.assign(predicted_low=central[:, 0], predicted_high=central[:, -1])
    return rows.assign(observed=np.nan if observed is None else observed.values.ravel())


def by_part(name: str, decisions: "xr.DataArray") -> dict[str, np.ndarray]:
    """A column of decisions; one for each part, where they have several."""
    if "part" not in decisions.dims:
        return {name: decisions.values.ravel()}
    parts = decisions.coords["part"].values
    return {f"{name}_{each}": decisions.sel(part=each).values.ravel() for each in parts}


def write_draws(path: Path, solution: Solution) -> None:
    """Draws from both posteriors, for ArviZ and the like; fewer of them for large models."""
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
