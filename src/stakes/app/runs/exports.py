"""Files that people and other programs read: decisions as CSV, draws as netCDF, the report."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stakes.app.runs.choosing import TODAY, Ways, in_words
from stakes.app.runs.manifest import Manifest
from stakes.app.runs.results import titled_fits
from stakes.app.spec import Job
from stakes.calibration import Assessment, Calibration
from stakes.errors import InputError, warn
from stakes.host import files

if TYPE_CHECKING:
    import pandas as pd

    from stakes import report

MOST_VALUES = 2**25
"""Draws of latents held at once."""


def write_decisions(path: Path, parts: Mapping[str, Assessment], ways: Ways, job: Job) -> None:
    """A row for each instance, part by part."""
    import pandas as pd

    label = job.spec.data.label if job.spec.data else []
    own_rows = {"fit": job.fit, "held out": job.held_out}
    tables = []
    for part, cases in parts.items():
        own = own_rows[part]
        table = _decisions(part, cases, ways, label, None if own is None else own.labels)
        if TODAY in ways.names and own is not None and "today" in own.beside:
            table["decision_today"] = own.beside["today"].ravel()
        tables.append(table)
    files.write(path, pd.concat(tables).to_csv(index=False).encode())


def _decisions(
    part: str, cases: Assessment, ways: Ways, label: list[str], labels: np.ndarray | None
) -> "pd.DataFrame":
    import pandas as pd

    decided, observed = ways.decide(cases), cases.observed
    rows = decided.to_series().index.to_frame(index=False)
    if labels is not None and decided.shape == (len(labels),):
        rows = pd.DataFrame(labels, columns=pd.Index(label))
    central = ways.forecast(cases).central
    return rows.assign(
        part=part,
        decision=decided.values.ravel(),
        decision_vi=cases.vi_decisions.values.ravel(),
        decision_calibrated=cases.decisions.values.ravel(),
        predicted_low=central[:, 0],
        predicted_high=central[:, -1],
        observed=np.nan if observed is None else observed.values.ravel(),
    )


def write_draws(path: Path, result: Calibration) -> None:
    """Draws from both posteriors, for ArviZ and the like; fewer of them for large models."""
    import pandas as pd
    import xarray as xr

    latents = result.approximation.latents.values()
    size = sum(int(np.prod(latent.shape)) for latent in latents)
    draws = int(np.clip(MOST_VALUES // max(size, 1), 10, 1000))
    fits = titled_fits(result)
    parts = [result.posterior(fit, draws=draws) for fit in fits.values()]
    merged = xr.concat(parts, dim=pd.Index(list(fits), name="fit"), join="exact")
    # A name such as "scope/site" would be a path within the file.
    merged = merged.rename({n: str(n).replace("/", ".") for n in merged if "/" in str(n)})
    files.write(path, bytes(merged.to_netcdf(engine="scipy")))


def write_report(
    path: Path,
    result: Calibration,
    ways: Ways,
    held_out: Assessment | None,
    manifest: Manifest,
    *,
    required: bool = False,
) -> None:
    """Write the report; where what it needs is not installed only warn, unless it is `required`."""
    from stakes import report

    reason = report.objection()
    if reason is not None:
        if required:
            raise InputError(reason)
        warn(f"No report was written. {reason} Then write it: `stakes report {path.parent}`.")
        return
    folder = path.parent
    page = report.summarise(
        result,
        title=manifest.title,
        held_out=held_out,
        provenance=_provenance(manifest),
        command=f"stakes report {folder}",
        program=PROGRAM.format(path=str(folder)),
        chosen=chosen_decisions(ways, result.on_fit),
        unit=ways.job.unit,
    )
    report.write(page, path)


def chosen_decisions(ways: Ways, cases: Assessment) -> "report.Chosen | None":
    """The decisions of the chosen way, and what they are worth, as the report takes them."""
    from stakes import report

    found = ways.chosen
    if found is None:
        return None
    lines = tuple(
        report.WayLine(
            name=row.name,
            words=in_words(row.name),
            risk=row.risk,
            better_by=None if row.name == found.base else row.better_by,
            interval=(row.low, row.high),
            coverage_50=row.coverage_50,
            coverage_90=row.coverage_90,
            seconds=row.seconds,
        )
        for row in found.ways
    )
    savings = tuple(
        report.Saving(each.than, found.row(each.than).risk, each.each, each.low, each.high)
        for each in found.saved
    )
    worth = report.Worth(
        way=found.way,
        quantity="gain" if found.gain else "cost",
        verdict=found.verdict,
        folds=found.folds,
        outcomes=found.outcomes,
        ways=lines,
        savings=savings,
    )
    central = ways.forecast(cases).central
    return report.Chosen(ways.found(cases), central[:, [0, -1]], worth)


PROGRAM = """\
from stakes.app import runs

runs.rewrite_report(runs.reopen({path!r}))
"""


def _provenance(manifest: Manifest) -> dict[str, str]:
    return {
        "made": manifest.created,
        "by": manifest.command,
        "seed": str(manifest.seed),
        "precision": manifest.precision,
        **manifest.versions,
        **{f"SHA-256 of {Path(s.path).name}": s.sha256 for s in (*manifest.code, *manifest.data)},
    }
