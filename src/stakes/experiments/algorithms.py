"""Test risk against wall clock: plain VI, joint optimisation, and EM with three M-steps.

Every method starts from the same random parameters, with no plain fit before it, and takes as many
steps. The clock stands still while the risk is measured, and compilation is left out.
"""

import time
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import evaluation, fitting, numpyro_adapter
from stakes.algorithms import EM, BayesDecisions, Joint, NumericalDecisions
from stakes.evaluation import Fitted
from stakes.experiments import figures, matrix, published
from stakes.experiments.matrix import Effort, Matrix
from stakes.experiments.study import Finding, Settings, Table, steps_of
from stakes.fitting import Course
from stakes.losses import Tilted
from stakes.preparation import Plan
from stakes.utilities import Linearized

LOSS = Tilted(0.2)
SCALE = 1 / 1.62
EVERY = 50
"""Steps between two M-steps: decisions move little in fewer, and an M-step costs as many."""
METHODS: dict[str, Joint | EM | None] = {
    "VI": None,
    "joint": Joint(),
    "EM, Bayes decisions": EM(m_step=BayesDecisions(), every=EVERY),
    "EM, numerical, 10 draws": EM(m_step=NumericalDecisions(), draws=10, every=EVERY),
    "EM, numerical, 100 draws": EM(m_step=NumericalDecisions(), draws=100, every=EVERY),
}
PUBLISHED_NAMES = {
    "VI": "VI",
    "joint": "joint",
    "EM, Bayes decisions": "EM, Bayes decisions",
    "EM, numerical, 10 draws": "EM, numerical",
}
LOOKS = 20
"""How often the test risk is measured on the way."""
CLOSE = 0.002
"""Two risks this close to each other, relatively, count as the same."""


def run(settings: Settings) -> Table:
    data, effort, store = matrix.opened(settings, "algorithms")
    with steps_of("algorithms", len(METHODS)) as tick:
        for name, method in METHODS.items():
            tick(name)
            if name not in store:
                store.put(name, _run_method(data, effort, method))
    base = store.rows["VI"]["course"][-1][1]
    reductions = {
        name: {"course": [[seconds, 1 - risk / base] for seconds, risk in row["course"]]}
        for name, row in store.rows.items()
    }
    figures.algorithms(reductions, store.folder, data.note)
    return _table(store.rows, data)


def _run_method(data: Matrix, effort: Effort, method: Joint | EM | None) -> dict[str, Any]:
    steps = effort.vi_steps
    plan = matrix.plan(
        data, LOSS, Linearized(scale=SCALE), effort, steps=steps, method=method or Joint()
    )
    start = plan.approximation.structure.start
    decisions = jnp.broadcast_to(jnp.asarray(np.quantile(data.y, LOSS.q)), data.y.shape)
    if method is None:
        step, state = plan.vi_step(), plan.vi_state(start)
    else:
        step, state = plan.step(SCALE), plan.state(start, decisions.astype(jnp.float32))
    watch = _Stopwatch(plan, data, steps)
    fit = fitting.run(
        "fit", step, plan.approximation, state, jax.random.key(1), plan.settings, watch=watch
    )
    return {"course": watch.course, "step_ms": 1e3 * fit.step_seconds, "steps": fit.steps}


@final
class _Stopwatch:
    """Test risk by seconds of fitting: the first chunk, which compiles, counts as its second."""

    def __init__(self, plan: Plan, data: Matrix, steps: int) -> None:
        self._plan, self._data = plan, data
        self._every = max(1, steps // plan.settings.chunk // LOOKS)
        self._chunks: list[float] = []
        self._risks: dict[int, float] = {}
        self._resumed = time.monotonic()

    def __call__(self, course: Course) -> None:
        self._chunks.append(time.monotonic() - self._resumed)
        if len(self._chunks) % self._every == 0:
            self._risks[len(self._chunks)] = self._risk(course)
        self._resumed = time.monotonic()

    @property
    def course(self) -> list[list[float]]:
        chunks = np.array(self._chunks)
        chunks[0] = chunks[1:].min() if len(chunks) > 1 else chunks[0]
        elapsed = chunks.cumsum()
        return [[float(elapsed[n - 1]), risk] for n, risk in self._risks.items()]

    def _risk(self, course: Course) -> float:
        plan = self._plan
        posterior = Fitted(plan.approximation, course.state.variables["params"])
        predictor = numpyro_adapter.predictor(plan.problem, plan.approximation)
        decisions = evaluation.decide(
            plan.problem, posterior, predictor, plan.expectation, jax.random.key(0), draws=64
        )
        return self._data.risk(LOSS, decisions)


def _table(rows: dict[str, dict[str, Any]], data: Matrix) -> Table:
    end = rows["joint"]["course"][-1][1] * (1 + CLOSE)
    reached = {name: Reached.by(row["course"], end) for name, row in rows.items()}
    lines = []
    for name, row in rows.items():
        seconds, risk = row["course"][-1]
        before = published.STEP_SECONDS.get(PUBLISHED_NAMES.get(name, ""))
        lines.append(
            [
                name,
                f"{risk:.4f}",
                f"{seconds:.1f}",
                *("not reached" if at is None else f"{at:.1f}" for at in reached[name]),
                f"{row['step_ms']:.2f}",
                "" if before is None else f"{1e3 * before:.0f}",
            ]
        )
    head = ["method", "test risk", "seconds", "first at joint's", "for good", "ms a step"]
    return Table(
        f"{data.name}, tilted 0.2, linearized: risk and wall clock",
        [*head, "ms a step, published"],
        lines,
        [
            f"At joint's: seconds until the risk was within {CLOSE:.1%} of where joint ended, or "
            f"lower; for good: until it stayed there. EM: an M-step every {EVERY} steps."
        ],
        [_finding(name, reached) for name, method in METHODS.items() if isinstance(method, EM)],
        data.caveats,
    )


class Reached(NamedTuple):
    """Seconds until a risk was reached at one look, and at all looks from then on."""

    first: float | None
    for_good: float | None

    @staticmethod
    def by(course: list[list[float]], risk: float) -> "Reached":
        above = [i for i, (_, found) in enumerate(course) if found > risk]
        first = next((seconds for seconds, found in course if found <= risk), None)
        after = course[above[-1] + 1 :] if above else course
        return Reached(first, after[0][0] if after else None)


def _finding(name: str, reached: dict[str, Reached]) -> Finding:
    pairs = zip(reached[name], reached["joint"], strict=True)
    ratios = ["never" if a is None or b is None else f"{a / b:.2f}" for a, b in pairs]
    before = PUBLISHED_NAMES.get(name)
    times = published.STEP_SECONDS
    return Finding(
        f"{name}: seconds to joint's risk over joint's, first (for good)",
        f"{ratios[0]} ({ratios[1]})",
        f"{times[before] / times['joint']:.1f} a step" if before else "",
    )
