"""Test risk against wall clock: plain VI, joint optimisation, and EM with three M-steps.

Every method starts from the same random parameters, with no plain fit before it, and takes equally
many steps. The clock is stopped while the risk is measured, and compilation is left out.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from reproduce import figures, matrix, published
from reproduce.matrix import Effort, Matrix
from reproduce.results import Finding, PaperTable, Settings, steps_of
from stakes import fitting, predicting
from stakes.decisions import BayesDecisions, NumericalDecisions
from stakes.fitting import EM, Fit, History, Joint, Method
from stakes.losses import Squared
from stakes.predicting import FittedPosterior
from stakes.study import Plan
from stakes.utilities import Exponential

LOSS = Squared()
SCALE = published.scale_of("squared")
EVERY = 20
"""Steps between two M-steps that search for decisions: each costs as much as many steps."""
SEARCHING = {
    f"EM, numerical, {draws} draws": EM(m_step=NumericalDecisions(), draws=draws, every=EVERY)
    for draws in (10, 100)
}
METHODS: dict[str, Method | None] = {
    "VI": None,
    "joint": Joint(),
    "EM, Bayes decisions": EM(m_step=BayesDecisions(), draws=30),
    **SEARCHING,
}
PUBLISHED_NAMES = {
    "VI": "VI",
    "joint": "joint",
    "EM, Bayes decisions": "EM, Bayes decisions",
    "EM, numerical, 10 draws": "EM, numerical",
}
LOOKS = 20
"""How often the test risk is measured during a fit."""
TIMED_STEPS = 300
CLOSE = (0.005, 0.002)
"""How near to joint's final risk counts as having reached it."""


def run(settings: Settings) -> PaperTable:
    data, effort, results = matrix.start(settings, "algorithms")
    methods = list(METHODS)[: 4 if settings.quick else None]
    with steps_of("algorithms", len(methods)) as tick:
        for name in methods:
            tick(name)
            if name not in results:
                results[name] = _run_method(data, effort, name)
    base = results["VI"]["risks"][-1][1]
    reductions = {
        name: [[seconds, 1 - risk / base] for seconds, risk in row["risks"]]
        for name, row in results.items()
    }
    figures.algorithms(reductions, results.folder, data.note)
    return _table(results, data)


def _run_method(data: Matrix, effort: Effort, name: str) -> dict[str, Any]:
    watch = _Stopwatch(data, effort.vi_steps)
    fit = _fit(data, effort, METHODS[name], effort.vi_steps, watch)
    row = {"risks": watch.risks, "step_ms": 1e3 * fit.step_seconds, "steps": fit.steps}
    if name in SEARCHING and effort is not matrix.QUICK:
        always = _fit(data, effort, replace(SEARCHING[name], every=1), TIMED_STEPS, None)
        row["always_ms"] = 1e3 * always.step_seconds
    return row


def _fit(
    data: Matrix,
    effort: Effort,
    method: Method | None,
    steps: int,
    watch: "_Stopwatch | None",
) -> Fit:
    plan = matrix.plan(
        data,
        matrix.problem(LOSS),
        Exponential(scale=SCALE, regret=False),
        effort,
        steps=steps,
        method=method or Joint(),
    )
    start = plan.approximation.start
    mean = jnp.full(data.y.shape, data.y[~data.test].mean(), jnp.result_type(float))
    if method is None:
        step, state = plan.vi_step(), plan.vi_state(start)
    else:
        step, state = plan.step(SCALE), plan.state(start, mean)
    look = None if watch is None else partial(watch.look, plan)
    key = jax.random.key(1)
    hooks = fitting.Hooks(watch=look)
    fit = fitting.run("fit", step, plan.approximation, state, key, plan.settings, hooks=hooks)
    fit.check_whole("fit")
    return fit


@final
class _Stopwatch:
    """Test risk by seconds of fitting, without the time taken to measure the risk.

    The first chunk has to be compiled: its time is taken to be that of the fastest of the others.
    """

    def __init__(self, data: Matrix, steps: int) -> None:
        self._data, self._steps = data, steps
        self._chunks: list[float] = []
        self._by_chunks: dict[int, float] = {}
        self._resumed = time.monotonic()

    def look(self, plan: Plan, history: History) -> None:
        self._chunks.append(time.monotonic() - self._resumed)
        every = max(1, self._steps // plan.settings.chunk // LOOKS)
        if len(self._chunks) % every == 0 or len(history.elbo) == self._steps:
            self._by_chunks[len(self._chunks)] = self._risk(plan, history)
        self._resumed = time.monotonic()

    @property
    def risks(self) -> list[list[float]]:
        chunks = np.array(self._chunks)
        chunks[0] = chunks[1:].min() if len(chunks) > 1 else chunks[0]
        elapsed = chunks.cumsum()
        return [[float(elapsed[n - 1]), risk] for n, risk in self._by_chunks.items()]

    def _risk(self, plan: Plan, history: History) -> float:
        posterior = FittedPosterior(plan.approximation, history.state.variables["params"])
        decisions = predicting.decide(
            plan.problem.task,
            posterior,
            plan.predictors.on(),
            plan.expectation,
            jax.random.key(0),
            draws=64,
        )
        return self._data.risk(LOSS, decisions)


def _table(rows: dict[str, dict[str, Any]], data: Matrix) -> PaperTable:
    end = rows["joint"]["risks"][-1][1]
    reached = {
        name: [seconds_until(row["risks"], end * (1 + close)) for close in CLOSE]
        for name, row in rows.items()
    }
    lines = []
    for name, row in rows.items():
        seconds, risk = row["risks"][-1]
        before = published.STEP_SECONDS.get(PUBLISHED_NAMES.get(name, ""))
        always = row.get("always_ms")
        lines.append(
            [
                name,
                f"{risk:.4f}",
                f"{seconds:.1f}",
                *("not reached" if at is None else f"{at:.1f}" for at in reached[name]),
                f"{row['step_ms']:.2f}",
                "" if always is None else f"{always:.2f}",
                "" if before is None else f"{1e3 * before:.0f}",
            ]
        )
    to = [f"to {100 * close:.1f} %" for close in CLOSE]
    head = ["method", "test risk", "seconds", *to, "ms a step"]
    return PaperTable(
        f"{data.name}, squared loss, exponential utility: risk and wall clock",
        [*head, "deciding at each", "published"],
        lines,
        [
            "To 0.5 %: seconds until the test risk stayed within that of where joint ended, or "
            f"lower. Numerical decisions are found every {EVERY} steps; what a step costs with "
            f"decisions at each, as published, is beside it."
        ],
        [_finding(name, reached) for name in rows if name.startswith("EM")],
        data.caveats,
    )


def seconds_until(risks: list[list[float]], limit: float) -> float | None:
    """Seconds after which the risk was at most this every time it was measured."""
    above = [i for i, (_, risk) in enumerate(risks) if risk > limit]
    after = risks[above[-1] + 1 :] if above else risks
    return after[0][0] if after else None


def _finding(name: str, reached: dict[str, list[float | None]]) -> Finding:
    pairs = zip(reached[name], reached["joint"], strict=True)
    ratios = ["never" if a is None or b is None else f"{a / b:.1f}" for a, b in pairs]
    near = " and ".join(f"{100 * close:.1f} %" for close in CLOSE)
    return Finding(f"{name}: times joint's seconds to within {near} of its risk", ", ".join(ratios))
