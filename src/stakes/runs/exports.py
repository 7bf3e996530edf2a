"""Files that people and other programs read: decisions as CSV, draws as netCDF, the report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes.errors import InputError
from stakes.result import Calibration
from stakes.spec import Job, Table
from stakes.storage import Manifest, files

if TYPE_CHECKING:
    import pandas as pd

INTERVAL = (0.05, 0.95)
MOST_VALUES = 2**25
"""Predicted outcomes, or draws of latents, held at once."""


def write_decisions(path: Path, result: Calibration, job: Job, new: Sequence[str]) -> None:
    """A row for each instance of the fit, then for each held out."""
    import pandas as pd

    parts = [_decisions(result, job, "fit", None, ())]
    if job.held_out is not None:
        parts.append(_decisions(result, job, "held out", job.held_out, new))
    files.write(path, pd.concat(parts).to_csv(index=False).encode())


def _decisions(
    result: Calibration, job: Job, part: str, table: Table | None, new: Sequence[str]
) -> "pd.DataFrame":
    import pandas as pd

    if table is None:
        plain, calibrated, observed = result.vi_decisions, result.decisions, result.observed()
    else:
        cases: dict[str, Any] = {"new": new, "known": job.known}
        calibrated = result.decide(table.arguments, **cases)
        plain = result.decide(table.arguments, fit=result.vi, **cases)
        observed = result.observed(table.arguments, **cases)
        if table.labels is not None and calibrated.ndim == 1:
            calibrated = calibrated.assign_coords({calibrated.dims[0]: table.labels})
    low, high = _interval(result, table, new, job.known, calibrated.size)
    rows = calibrated.to_series().index.to_frame(index=False)
    label = job.spec.data.label if job.spec.data else None
    if label and calibrated.ndim == 1:
        rows.columns = pd.Index([label])
    return rows.assign(
        part=part,
        decision_vi=plain.values.ravel(),
        decision_calibrated=calibrated.values.ravel(),
        predicted_low=low.ravel(),
        predicted_high=high.ravel(),
        observed=np.nan if observed is None else observed.values.ravel(),
    )


def _interval(
    result: Calibration, table: Table | None, new: Sequence[str], known: Sequence[str], size: int
) -> np.ndarray:
    """The central 90 % of what the calibrated posterior predicts."""
    draws = int(np.clip(MOST_VALUES // max(size, 1), 100, 1000))
    data = None if table is None else table.arguments
    cases: dict[str, Any] = {} if data is None else {"new": new, "known": known}
    predicted = result.predictive(data, draws=draws, **cases)[result.problem.outcome]
    return np.quantile(predicted.values[0], INTERVAL, axis=0)


def write_draws(path: Path, result: Calibration) -> None:
    """Draws from both posteriors, for ArviZ and the like; fewer of them for large models."""
    import pandas as pd
    import xarray as xr

    latents = result.approximation.structure.latents.values()
    size = sum(int(np.prod(latent.shape)) for latent in latents)
    draws = int(np.clip(MOST_VALUES // max(size, 1), 10, 1000))
    fits = {"VI": result.vi, "calibrated": result.calibrated}
    parts = [result.posterior(fit, draws=draws) for fit in fits.values()]
    merged = xr.concat(parts, dim=pd.Index(list(fits), name="fit"), join="exact")
    # A name such as "scope/site" would be a path within the file.
    merged = merged.rename({n: str(n).replace("/", ".") for n in merged if "/" in str(n)})
    files.write(path, bytes(merged.to_netcdf(engine="scipy")))


def write_report(
    path: Path,
    result: Calibration,
    job: Job,
    new: Sequence[str],
    manifest: Manifest,
    *,
    required: bool = False,
) -> None:
    """The page for people; nothing where what it needs is not installed, unless `required`."""
    try:
        from stakes import report
    except ModuleNotFoundError as error:
        if required:
            raise InputError(f"A report needs {error.name}: pip install 'stakes[cli]'.") from None
        return
    folder = path.parent
    page = report.summarise(
        result,
        title=manifest.title,
        held_out=None if job.held_out is None else job.held_out.arguments,
        new=new,
        known=job.known,
        provenance=_provenance(manifest),
        command=f"stakes report {folder}",
        program=PROGRAM.format(path=str(folder)),
    )
    report.write(page, path)


PROGRAM = """\
from pathlib import Path
from stakes import runs

runs.rewrite_report(runs.reopen(Path({path!r})))
"""


def _provenance(manifest: Manifest) -> dict[str, str]:
    return {
        "made": manifest.created,
        "by": manifest.command,
        "seed": str(manifest.seed),
        "precision": manifest.precision,
        **{name: version for name, version in manifest.versions.items()},
        **{f"SHA-256 of {Path(s.path).name}": s.sha256 for s in (*manifest.code, *manifest.data)},
    }
