"""Last.fm under four losses: does calibration lower the test risk, and by how much?"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reproduce import figures, matrix, published
from reproduce.matrix import LOSSES, Effort, Matrix
from reproduce.results import Finding, PaperTable, Results, Settings, steps_of
from reproduce.seeds import PlainFits, calibrate_seeds
from stakes.expectation import MonteCarlo
from stakes.host.progress import Tick
from stakes.protocols import Loss, Transform
from stakes.study import Calibration, Plan
from stakes.utilities import Exponential, Linearized

EFFORT = Effort(vi_steps=6_000, steps=2_000, draws=4, independent=False)
"""The least that reaches the ELBO in the tables of the others; the docs say what was tried."""
TOGETHER = 5
"""Seeds in a batch; more would not be faster on two cores."""
PUBLISHED_DRAWS = 300
SAMPLED = "nested sampling, as published"


def run(settings: Settings) -> PaperTable:
    data, effort, results = matrix.start(settings, "losses", EFFORT)
    chosen = dict(list(LOSSES.items())[:1]) if settings.quick else LOSSES
    count = min(settings.seeds, 2) if settings.quick else settings.seeds
    groups = [range(i, min(i + TOGETHER, count)) for i in range(0, count, TOGETHER)]
    parts = len(groups) * (1 + 2 * len(chosen)) + settings.as_published
    with steps_of("losses", parts) as tick:
        for group in groups:
            _run_group(group, data, effort, chosen, results, tick)
        if settings.as_published:
            tick("as published, seed 0")
            own = effort if settings.quick else matrix.THOROUGH
            _run_published(data, own, chosen, results)
    asked = [_row_name(*pair, seed) for pair in _pairs(chosen) for seed in range(count)]
    asked += [_row_name(next(iter(chosen)), SAMPLED, 0)] if settings.as_published else []
    rows = {name: row for name, row in results.items() if name in asked}
    figures.losses(rows, results.folder, data.note)
    return _table(rows, data)


def _transforms(name: str) -> dict[str, Transform]:
    return {
        "linearized, M = 1 over γ": Linearized(scale=published.scale_of(name), regret=False),
        "exponential M_90": Exponential(regret=False),
    }


def _run_group(
    group: Sequence[int],
    data: Matrix,
    effort: Effort,
    losses: dict[str, Loss],
    results: Results,
    tick: Tick,
) -> None:
    wanted = _pairs(losses)
    missing = [
        pair for pair in wanted if any(_row_name(*pair, seed) not in results for seed in group)
    ]
    where = f"seeds {group[0]} to {group[-1]}"
    tick(f"plain VI, {where}")
    plain = matrix.plain_fits(data, effort, group) if missing else None
    for loss, transform in wanted:
        tick(f"{loss}, {transform}, {where}")
        if plain is None or (loss, transform) not in missing:
            continue
        chosen = _transforms(loss)[transform]
        plan = matrix.plan(data, matrix.problem(losses[loss]), chosen, effort, steps=effort.steps)
        rows = _calibrated(*plain, plan, data, losses[loss], look=group[0] == 0)
        for seed, row in zip(group, rows, strict=True):
            results[_row_name(loss, transform, seed)] = row


def _pairs(losses: Iterable[str]) -> list[tuple[str, str]]:
    return [(loss, transform) for loss in losses for transform in _transforms(loss)]


def _row_name(loss: str, transform: str, seed: int) -> str:
    return f"{loss}/{transform}/{seed}"


def _calibrated(
    plain: PlainFits, longer: PlainFits, plan: Plan, data: Matrix, loss: Loss, *, look: bool
) -> list[dict[str, Any]]:
    """Calibrated from plain VI, and judged against plain VI continued for as many steps.

    The figures take a look at the first, where asked for.
    """
    decided = [decisions for _, decisions in longer.ready(plan)]
    results = [
        replace(result, vi=vi)
        for result, vi in zip(calibrate_seeds(plain, plan), longer.fits, strict=True)
    ]
    rows = [
        _figures(result, before, data, loss)
        for result, before in zip(results, decided, strict=True)
    ]
    if look:
        whole = np.concatenate([plain.fits[0].bound, longer.fits[0].bound])
        rows[0]["look"] = _look(results[0], decided[0], data, whole)
    return rows


def _figures(
    result: Calibration, vi_decisions: np.ndarray, data: Matrix, loss: Loss
) -> dict[str, Any]:
    before = data.risk(loss, vi_decisions)
    after = data.risk(loss, result.decisions.values)
    return {
        "risk_vi": before,
        "risk": after,
        "reduction": (before - after) / before,
        "scale": result.scale,
        "vi": matrix.fit_figures(result.vi),
        "calibrated": matrix.fit_figures(result.calibrated),
    }


def _look(
    result: Calibration, vi_decisions: np.ndarray, data: Matrix, vi_bound: np.ndarray
) -> dict[str, Any]:
    """For the figures: traces, some predictive distributions, and how decisions changed."""
    rng = np.random.default_rng(0)
    at = list(zip(*(rng.integers(0, size, 4) for size in data.y.shape), strict=True))
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    drawn = {
        name: result.predictive(fit=fit, draws=200)["y"].values[0]
        for name, fit in (("VI", result.vi), ("LCVI", result.calibrated))
    }
    decided = {"VI": vi_decisions, "LCVI": result.decisions.values}
    pairs = [
        {
            "row": data.row_names[r],
            "column": data.column_names[c],
            "y": float(data.y[r, c]),
            **{
                name: {
                    "quantiles": np.quantile(drawn[name][:, r, c], levels).tolist(),
                    "decision": float(decided[name][r, c]),
                }
                for name in drawn
            },
        }
        for r, c in at
    ]
    change = (decided["LCVI"] - decided["VI"]).mean(axis=1)
    return {
        "pairs": pairs,
        "change": np.round(change, 5).tolist(),
        "trace_vi": matrix.thinned(vi_bound),
        "trace": matrix.thinned(result.calibrated.bound),
    }


def _run_published(data: Matrix, effort: Effort, losses: dict[str, Loss], results: Results) -> None:
    """The paper's estimator: 300 independent draws of θ, one of y each; one seed and loss."""
    name, loss = next(iter(losses.items()))
    row_name = _row_name(name, SAMPLED, 0)
    if row_name in results:
        return
    plan = matrix.plan(
        data,
        matrix.problem(loss),
        Exponential(scale=published.scale_of(name), regret=False),
        effort,
        steps=effort.steps,
        expectation=MonteCarlo(draws=1),
        draws=PUBLISHED_DRAWS,
    )
    plain = matrix.plain_fits(data, effort, [0], draws=PUBLISHED_DRAWS)
    [results[row_name]] = _calibrated(*plain, plan, data, loss, look=False)


def _table(all_rows: dict[str, dict[str, Any]], data: Matrix) -> PaperTable:
    lines = []
    for name in dict.fromkeys(key.rsplit("/", 1)[0] for key in all_rows):
        rows = [row for key, row in all_rows.items() if key.rsplit("/", 1)[0] == name]
        reductions = 100 * np.array([row["reduction"] for row in rows])
        loss, transform = name.split("/")
        before = published.LASTFM[loss]
        lines.append(
            [
                loss,
                transform,
                f"{np.mean([row['risk_vi'] for row in rows]):.4f}",
                f"{np.mean([row['risk'] for row in rows]):.4f}",
                f"{reductions.mean():.2f} %"
                + (f" ± {reductions.std():.2f}" if len(rows) > 1 else ""),
                f"{reductions.min():.2f} %",
                str(len(rows)),
                f"{np.median([row['calibrated']['step_ms'] for row in rows]):.2f}",
                f"{before.vi:.4f}",
                before.reduction,
            ]
        )
    lines.sort(key=lambda line: line[1], reverse=True)
    head = ["loss", "utility", "VI", "LCVI", "reduction", "least", "seeds"]
    return PaperTable(
        f"Test risk on {data.name}, {data.y.shape[0]} x {data.y.shape[1]}",
        [*head, "ms a step", "VI, published", "reduction, published"],
        lines,
        findings=[Finding(f"{line[0]}, {line[1]}", line[4], line[-1]) for line in lines],
        caveats=data.caveats,
    )
