"""A bounded utility, exp(-(h-y)²), directly and through linearized losses at several M.

The published runs of the direct estimator ended in a collapsed posterior, which earns well on a
matrix of mostly small entries. So each row has its ELBO and squared error beside its gain.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from stakes import seeds as several
from stakes.calibration import Calibration
from stakes.experiments import figures, matrix, published
from stakes.experiments.matrix import Effort, Matrix
from stakes.experiments.study import Finding, Settings, Table, steps_of
from stakes.losses import Squared
from stakes.seeds import PlainFits
from stakes.utilities import ExpUtility, Linearized

UTILITY = ExpUtility(Squared(), scale=1.0)
LEVELS = {"M = median loss": 0.5, "M = 90 % quantile": 0.9}


def run(settings: Settings) -> Table:
    data, effort, store = matrix.opened(settings, "linearization")
    parts = _parts(data, effort)
    with steps_of("linearization", 1 + len(parts)) as tick:
        tick("plain VI")
        missing = [name for name in parts if name not in store]
        if missing:
            plain, longer = matrix.plain_fits(data, effort, [0])
        for name, part in parts.items():
            tick(name)
            if name in missing:
                result = part(plain)
                if "VI" not in store:
                    store.put("VI", _row(result, longer.fits[0], data))
                store.put(name, _row(result, result.calibrated, data))
    figures.linearization(store.rows, store.folder, data.note)
    return _table(store.rows, data)


def _parts(data: Matrix, effort: Effort) -> dict[str, Callable[[PlainFits], Calibration]]:
    def direct(plain: PlainFits, *, warm_start: bool, steps: int) -> Calibration:
        plan = matrix.plan(data, UTILITY, None, effort, steps=steps)
        return several.calibrate_seeds(plain, plan, warm_start=warm_start)[0]

    def linearized(plain: PlainFits, transform: Linearized) -> Calibration:
        plan = matrix.plan(data, Squared(), transform, effort, steps=effort.steps)
        return several.calibrate_seeds(plain, plan)[0]

    def through(transform: Linearized) -> Callable[[PlainFits], Calibration]:
        return lambda plain: linearized(plain, transform)

    return {
        "direct, from plain VI": lambda p: direct(p, warm_start=True, steps=effort.steps),
        "direct, from a random start": lambda p: direct(
            p, warm_start=False, steps=effort.vi_steps + effort.steps
        ),
        "linearized, M = 1": through(Linearized(scale=1.0)),
        **{f"linearized, {name}": through(Linearized(quantile=q)) for name, q in LEVELS.items()},
    }


def _row(result: Calibration, fit: Any, data: Matrix) -> dict[str, Any]:
    """Judged by decisions that are best for the utility itself, and by the posterior mean."""
    judged = replace(
        result, problem=replace(result.problem, loss=None, utility=UTILITY), calibrated=fit
    )
    squared = replace(
        result, problem=replace(result.problem, loss=Squared(), utility=None), calibrated=fit
    )
    gains = np.asarray(UTILITY(jnp.asarray(data.y), jnp.asarray(judged.decisions.values)))
    return {
        "gain": float(gains[data.test].mean(dtype=np.float64)),
        "squared_error": data.risk(Squared(), squared.decisions.values),
        "scale": result.scale,
        "mean_decision": float(judged.decisions.values.mean()),
        **matrix.fit_figures(fit),
    }


def _table(rows: dict[str, dict[str, Any]], data: Matrix) -> Table:
    lines = [
        [
            name,
            f"{row['gain']:.4f}",
            f"{row['elbo']:.0f}",
            f"{row['squared_error']:.4f}",
            f"{row['mean_decision']:.3f}",
        ]
        for name, row in rows.items()
    ]
    zero = np.exp(-np.square(data.y[data.test])).mean()
    notes = [
        f"Predicting zero everywhere has a gain of {zero:.4f}.",
        f"Published, with collapsed direct runs: VI {published.GAINS['VI']}, "
        f"direct {published.GAINS['direct']}.",
    ]
    findings = [
        Finding(
            f"{name}: gain (ELBO)",
            f"{row['gain']:.4f} ({row['elbo']:.0f})",
            str(published.GAINS.get(name.split(",")[0], "")),
        )
        for name, row in rows.items()
    ]
    return Table(
        f"{data.name}: the utility exp(-(h-y)²), directly and linearized",
        ["posterior", "test gain", "ELBO", "squared error", "mean decision"],
        lines,
        notes,
        findings,
        data.caveats,
    )
