"""A bounded utility, u = exp(-(h-y)²), directly and through linearized losses at several M.

The paper linearizes the loss 1 - u. The squared loss is what a user with this utility in mind might
take; with M = 1 its linearized term is Jensen's bound of the direct one. The published runs of the
direct estimator ended in a collapsed posterior, which earns well on a matrix of mostly small
entries. So each row has its ELBO and squared error beside its gain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from reproduce import figures, matrix, published
from reproduce.matrix import Effort, Matrix
from reproduce.results import Finding, PaperTable, Settings, steps_of
from reproduce.seeds import PlainFits, calibrate_seeds
from stakes._types import Array, Number
from stakes.errors import NoClosedForm
from stakes.losses import Squared
from stakes.protocols import Loss, Predicted
from stakes.study import Calibration
from stakes.utilities import ExpUtility, Linearized

UTILITY = ExpUtility(Squared(), scale=1.0, regret=False)
PUBLISHED = {
    "VI": str(published.GAINS["VI"]),
    "direct, from plain VI": f"{published.GAINS['direct']}, collapsed",
}


@final
@dataclass(frozen=True)
class OneMinusUtility:
    """ℓ = 1 - exp(-(h-y)²)."""

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return -jnp.expm1(-jnp.square(outcome - decision))

    def expected(self, predicted: Predicted, decision: Array) -> Array:
        return -jnp.expm1(predicted.log_kernel(decision, 1.0))

    def log_expected_utility(self, predicted: Predicted, decision: Array, scale: Number) -> Array:
        raise NoClosedForm("exp(-ℓ/M) of a loss that is exponential itself has no formula.")


LINEARIZED: dict[str, tuple[Loss, Linearized]] = {
    "1 - u, linearized, M = 1": (OneMinusUtility(), Linearized(scale=1.0, regret=False)),
    **{
        f"1 - u, linearized, M = {100 * q:.0f} % quantile": (
            OneMinusUtility(),
            Linearized(q, regret=False),
        )
        for q in (0.7, 0.5, 0.2)
    },
    "squared, linearized, M = 1": (Squared(), Linearized(scale=1.0, regret=False)),
    "squared, linearized, M = 90 % quantile": (Squared(), Linearized(0.9, regret=False)),
}


def run(settings: Settings) -> PaperTable:
    data, effort, results = matrix.start(settings, "linearization")
    parts = _parts(data, effort, list(LINEARIZED)[:: 4 if settings.quick else 1])
    with steps_of("linearization", 1 + len(parts)) as tick:
        tick("plain VI")
        missing = [name for name in parts if name not in results]
        if missing:
            plain, longer = matrix.plain_fits(data, effort, [0])
        for name, part in parts.items():
            tick(name)
            if name in missing:
                result = part(plain)
                if "VI" not in results:
                    results["VI"] = _row(result, longer.fits[0], data)
                results[name] = _row(result, result.calibrated, data)
    rows = {name: results[name] for name in ("VI", *parts)}
    figures.linearization(rows, results.folder, data.note)
    return _table(rows, data)


def _parts(
    data: Matrix, effort: Effort, names: Sequence[str]
) -> dict[str, Callable[[PlainFits], Calibration]]:
    def direct(plain: PlainFits, *, warm_start: bool, steps: int) -> Calibration:
        asked = matrix.problem(utility=UTILITY)
        plan = matrix.plan(data, asked, None, effort, steps=steps, warm_start=warm_start)
        return calibrate_seeds(plain, plan)[0]

    def linearized(loss: Loss, transform: Linearized) -> Callable[[PlainFits], Calibration]:
        plan = partial(
            matrix.plan, data, matrix.problem(loss), transform, effort, steps=effort.steps
        )
        return lambda plain: calibrate_seeds(plain, plan())[0]

    return {
        "direct, from plain VI": lambda p: direct(p, warm_start=True, steps=effort.steps),
        "direct, from random parameters": lambda p: direct(
            p, warm_start=False, steps=effort.vi_steps + effort.steps
        ),
        **{name: linearized(*LINEARIZED[name]) for name in names},
    }


def _about(result: Calibration, fit: Any, **costs: Any) -> Calibration:
    """The same posterior, judged by other costs."""
    plan = replace(result.plan, problem=replace(result.problem, **costs))
    return replace(result, plan=plan, calibrated=fit, home=None)


def _row(result: Calibration, fit: Any, data: Matrix) -> dict[str, Any]:
    """Judged by decisions that are best for the utility itself, and by the posterior mean."""
    judged = _about(result, fit, loss=None, utility=UTILITY)
    squared = _about(result, fit, loss=Squared(), utility=None)
    gains = np.asarray(UTILITY(jnp.asarray(data.y), jnp.asarray(judged.decisions.values)))
    return {
        "gain": float(gains[data.test].mean(dtype=np.float64)),
        "squared_error": data.risk(Squared(), squared.decisions.values),
        "scale": result.scale,
        "mean_decision": float(judged.decisions.values.mean()),
        **matrix.fit_figures(fit),
    }


def _table(rows: dict[str, dict[str, Any]], data: Matrix) -> PaperTable:
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
            PUBLISHED.get(name, ""),
        )
        for name, row in rows.items()
    ]
    return PaperTable(
        f"{data.name}: the utility exp(-(h-y)²), directly and linearized",
        ["posterior", "test gain", "ELBO", "squared error", "mean decision"],
        lines,
        notes,
        findings,
        data.caveats,
    )
