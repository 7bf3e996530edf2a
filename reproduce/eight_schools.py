"""Eight schools: the risk during the calibrated fit, and what calibration does to q."""

from typing import Any

import jax
import numpy as np

from reproduce import figures, matrix
from reproduce.published import EIGHT_SCHOOLS
from reproduce.results import (
    QUICK_CAVEAT,
    Finding,
    PaperTable,
    Results,
    Settings,
    steps_of,
)
from reproduce.seeds import calibrate_seeds, fit_vi
from stakes._types import Params
from stakes.demos import eight_schools
from stakes.fitting import History, adam
from stakes.host.progress import Tick
from stakes.predicting import FittedPosterior
from stakes.study import Calibration, Options, Plan, prepare
from stakes.utilities import Linearized

EVERY = 500
"""Steps between two looks at the risk."""


def run(settings: Settings) -> PaperTable:
    count = min(settings.seeds, 2) if settings.quick else settings.seeds
    steps = 600 if settings.quick else 15_000
    results = Results(settings.folder / "eight-schools", {"steps": steps})
    name = f"{count} starts"
    if name not in results:
        with steps_of("eight-schools", 3) as tick:
            results[name] = _experiment(count, steps, tick)
    content, caveats = results[name], [QUICK_CAVEAT] if settings.quick else []
    figures.eight_schools(content, results.folder, " ".join(caveats))
    return _table(content, caveats)


def _experiment(count: int, steps: int, tick: Tick) -> dict[str, Any]:
    plan = _plan(steps)
    keys = matrix.keys(range(count))
    tick(f"plain VI from {count} starts")
    plain = fit_vi(keys, plan)
    looks: list[tuple[int, list[Params]]] = []

    def watch(history: History) -> None:
        if len(history.elbo) % EVERY == 0:
            params = history.average.over(history.state.variables)["params"]
            by_start = [jax.tree.map(lambda leaf, i=i: leaf[i], params) for i in range(count)]
            looks.append((len(history.elbo), jax.tree.map(np.array, by_start)))

    tick(f"calibrated from {count} starts")
    results = calibrate_seeds(plain, plan, watch=watch)
    tick("NUTS")
    risks = [result.compare().risk for result in results]
    reductions = [
        [1 - _risk(result, params[i]) / risk["VI"] for _, params in looks]
        for i, (result, risk) in enumerate(zip(results, risks, strict=True))
    ]
    return {
        "risk_vi": [risk["VI"] for risk in risks],
        "risk": [risk["LCVI"] for risk in risks],
        "steps": [step for step, _ in looks],
        "reductions": reductions,
        "stopped": [str(result.calibrated.reason) for result in results],
        "draws": _draws(results[0], 300 if steps < 1000 else 2000),
    }


def _plan(steps: int) -> Plan:
    return prepare(
        jax.random.key(0),
        eight_schools.problem(),
        eight_schools.data(),
        Options(
            transform=Linearized(scale=7.0, regret=False),
            steps=steps,
            optimizer=adam(),
            independent=True,
        ),
    )


def _risk(result: Calibration, params: Params) -> float:
    """On the training data, as published, of the best decisions under these parameters."""
    decisions = result.on_fit.decide(FittedPosterior(result.approximation, params))
    seen = result.on_fit.observations
    assert seen is not None
    return float(seen.costs(result.problem.task, decisions).mean())


def _draws(result: Calibration, count: int) -> dict[str, dict[str, list[float]]]:
    sets = {name: result.posterior(fit, draws=count) for name, fit in result.fits.items()}
    drawn = {
        name: {"tau": draws["tau"].values[0], "theta_1": draws["theta"].values[0, :, 0]}
        for name, draws in sets.items()
    }
    nuts = result.nuts(count).samples
    drawn["NUTS"] = {"tau": np.asarray(nuts["tau"]), "theta_1": np.asarray(nuts["theta"][:, 0])}
    return {n: {k: np.round(v, 4).tolist() for k, v in d.items()} for n, d in drawn.items()}


def _table(content: dict[str, Any], caveats: list[str]) -> PaperTable:
    before, after = np.array(content["risk_vi"]), np.array(content["risk"])
    reductions = 100 * (before - after) / before
    lines = [
        [
            "published",
            f"{EIGHT_SCHOOLS.vi:.3f}",
            f"{EIGHT_SCHOOLS.lcvi:.3f}",
            EIGHT_SCHOOLS.reduction,
            "11",
        ],
        ["published, without evaluation noise", "3.033", "3.004", "", ""],
        [
            "stakes",
            f"{before.mean():.4f} ± {before.std():.4f}",
            f"{after.mean():.4f} ± {after.std():.4f}",
            f"{reductions.min():.2f} to {reductions.max():.2f} %",
            str(len(before)),
        ],
    ]
    return PaperTable(
        "Eight schools: tilted 0.2, linearized with M = 7, risk on the training data",
        ["", "VI", "LCVI", "reduction", "starts"],
        lines,
        findings=[
            Finding(what, lines[-1][column], lines[0][column])
            for column, what in enumerate(["risk of VI", "risk of LCVI", "reduction"], start=1)
        ],
        caveats=caveats,
    )
