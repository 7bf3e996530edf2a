"""How the scale M behind the utility matters, from collapse through an optimum to plain VI."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reproduce import figures, matrix
from reproduce.matrix import Effort, Matrix
from reproduce.results import Finding, PaperTable, Settings, steps_of
from reproduce.seeds import PlainFits, calibrate_scales
from stakes import predicting
from stakes.losses import Tilted
from stakes.predicting import FittedPosterior
from stakes.protocols import Transform
from stakes.study import Calibration, Plan
from stakes.utilities import Exponential, Linearized

LOSS = Tilted(0.2)
LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
BEYOND = (10.0, 100.0, 1000.0)
"""Multiples of the 99 % quantile, where calibration fades."""
TRANSFORMS: dict[str, Transform] = {
    "linearized": Linearized(regret=False),
    "exponential": Exponential(regret=False),
}
TOGETHER = 7


def run(settings: Settings) -> PaperTable:
    data, effort, results = matrix.start(settings, "quantiles")
    with steps_of("quantiles", 1 + len(TRANSFORMS)) as tick:
        tick("plain VI")
        levels = dict.fromkeys(_names(settings.quick))
        wanted = [f"{name} {level}" for name in TRANSFORMS for level in levels]
        if any(name not in results for name in wanted):
            plain, longer = matrix.plain_fits(data, effort, [0])
            scales = _scales(plain, data, settings.quick)
            for name, transform in TRANSFORMS.items():
                tick(name)
                plan = _plan(data, transform, effort)
                labels = list(scales)
                for i in range(0, len(labels), TOGETHER):
                    part = labels[i : i + TOGETHER]
                    if all(f"{name} {label}" in results for label in part):
                        continue
                    calibrated = calibrate_scales(plain, plan, [scales[s] for s in part])
                    before = longer.ready(plan)[0][1]
                    for label, result in zip(part, calibrated, strict=True):
                        row = _row(replace(result, vi=longer.fits[0]), before, data)
                        results[f"{name} {label}"] = row
    figures.quantiles(results, results.folder, data.note)
    return _table(results, data)


def _names(quick: bool) -> list[str]:
    levels, beyond = (LEVELS[::3], BEYOND[-1:]) if quick else (LEVELS, BEYOND)
    return [*(f"{100 * q:.0f} %" for q in levels), *(f"99 % x {m:.0f}" for m in beyond)]


def _plan(data: Matrix, transform: Transform, effort: Effort) -> Plan:
    return matrix.plan(data, matrix.problem(LOSS), transform, effort, steps=effort.steps)


def _scales(plain: PlainFits, data: Matrix, quick: bool) -> dict[str, float]:
    """Quantiles of the training losses of plain VI, and beyond."""
    plan = _plan(data, Linearized(regret=False), Effort(steps=1))
    decisions = plain.ready(plan)[0][1]
    losses = np.asarray(LOSS(jnp.asarray(data.y), jnp.asarray(decisions)))[~data.test]
    levels, beyond = (LEVELS[::3], BEYOND[-1:]) if quick else (LEVELS, BEYOND)
    scales = [np.quantile(losses, level) for level in levels]
    scales += [np.quantile(losses, 0.99) * factor for factor in beyond]
    return {name: float(scale) for name, scale in zip(_names(quick), scales, strict=True)}


def _row(result: Calibration, vi_decisions: np.ndarray, data: Matrix) -> dict[str, Any]:
    before, after = data.risk(LOSS, vi_decisions), data.risk(LOSS, result.decisions.values)
    return {
        "scale": result.scale,
        "risk_vi": before,
        "risk": after,
        "reduction": (before - after) / before,
        "spread": _spread(result),
        "elbo_vi": matrix.last(result.vi.elbo),
        **matrix.fit_figures(result.calibrated),
    }


def _spread(result: Calibration) -> float:
    """Standard deviation of E[y|θ] under q, averaged over the first rows: how sure q is."""
    posterior = FittedPosterior(result.approximation, result.calibrated.params)
    outcomes, _ = predicting.outcomes(
        posterior, result.plan.predictors.on(), result.keys.posterior, 100
    )
    means = jax.vmap(lambda outcome: outcome.mean)(outcomes)
    return float(np.asarray(means).std(axis=0).mean())


def _table(rows: dict[str, dict[str, Any]], data: Matrix) -> PaperTable:
    lines = [
        [
            name,
            f"{row['scale']:.4g}",
            f"{row['risk']:.4f}",
            f"{100 * row['reduction']:.2f} %",
            f"{row['elbo']:.0f}",
            f"{row['spread']:.3f}",
        ]
        for name, row in sorted(rows.items(), key=lambda item: (item[0][0], item[1]["scale"]))
    ]
    first = next(iter(rows.values()))
    vi = ["plain VI", "", f"{first['risk_vi']:.4f}", "", f"{first['elbo_vi']:.0f}", ""]
    return PaperTable(
        f"{data.name}, tilted 0.2: the quantile behind M",
        ["utility and quantile", "M", "test risk", "reduction", "ELBO", "spread"],
        [vi, *lines],
        findings=[finding for name in TRANSFORMS for finding in _findings(name, rows)],
        caveats=data.caveats,
    )


def _findings(transform: str, rows: dict[str, dict[str, Any]]) -> list[Finding]:
    """The best of the quantiles at which the posterior has not collapsed, and both ends."""
    of = {n: row for n, row in rows.items() if n.startswith(transform)}
    ordered = sorted(of, key=lambda n: of[n]["scale"])
    sound = [n for n in ordered if of[n]["spread"] > of[ordered[-1]]["spread"] / 3]
    best = max(sound, key=lambda n: of[n]["reduction"])
    return [
        Finding(
            f"{what}, {name}: reduction (ELBO, spread)",
            f"{100 * of[name]['reduction']:.2f} % ({of[name]['elbo']:.0f}, "
            f"{of[name]['spread']:.3f})",
        )
        for what, name in (
            ("least M", ordered[0]),
            ("best uncollapsed", best),
            ("largest M", ordered[-1]),
        )
    ]
