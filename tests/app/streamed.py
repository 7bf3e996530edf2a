"""A stream that several processes fit together, and what one process makes of their minibatches."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import stakes
from stakes.bridge.sites import Times
from stakes.fitting import Fit, Hooks, State, Step, run
from stakes.predicting import FittedPosterior, decide
from stakes.study import Options, prepare
from stakes.study.options import Keys
from stakes.study.streaming import StreamedRows, opened

ROWS, BATCH = 2001, 8


def model(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", len(x), subsample_size=BATCH) as at:
        seen = None if y is None else y[at]
        numpyro.sample("y", dist.Normal(level + slope * x[at], 1), obs=seen)


def with_rows(x: Any, y: Any = None) -> None:
    """Each row has a latent, whose exact posterior has mean y - x over two."""
    with numpyro.plate("row", len(x), subsample_size=BATCH) as at:
        own = numpyro.sample("own", dist.Normal(0, 1))
        seen = None if y is None else y[at]
        numpyro.sample("y", dist.Normal(x[at] + own, 1), obs=seen)


KEY = jax.random.key(0)
OF_ROWS = stakes.Problem(with_rows, outcome="y", loss=stakes.Squared())
PROBLEM = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
OPTIONS = Options(steps=500, draws=4, independent=True, all_steps=True)
LONGER = replace(OPTIONS, steps=3000)
"""So that each row comes up a dozen times."""


def write_table(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=ROWS))
    rows = np.column_stack([x, 0.5 - x + rng.normal(size=ROWS)])
    np.savetxt(folder / "table.csv", rows, delimiter=",", header="x,y", comments="")


def stream_in(folder: Any) -> stakes.Stream:
    return stakes.Stream(f"{folder}/table.csv", scratch=folder)


def expected_of(folder: Path, count: int, scale: float) -> dict[str, np.ndarray]:
    """Parameters and bounds of one process with the minibatches of several, and its decisions."""
    from threads import together

    keys = Keys.of(KEY)

    def planned(on: Any) -> Any:
        beyond = opened(PROBLEM, stream_in(folder), 100, keys.setup, on)
        assert isinstance(beyond, StreamedRows)
        options = replace(OPTIONS, method=stakes.EM())
        return beyond, beyond.of(prepare(keys.setup, PROBLEM, beyond.sample, options))

    found = together(count, planned)
    beyonds, plan = [beyond for beyond, _ in found], found[0][1]
    part, each = beyonds[0].part, BATCH // count
    whole = replace(plan.approximation, times=None)
    times = np.repeat(beyonds[0].copy.shares * count / part.size, each)

    def fitted(title: str, step: Step, state: State, key: Any) -> Fit:
        def feed(start: int, steps: int) -> Any:
            taken = [feed(start, steps)[0].arrays for feed in feeds]
            arrays = {
                name: jnp.concatenate(
                    [own[name][: steps * each].reshape(steps, each) for own in taken], axis=1
                ).ravel()
                for name in taken[0]
            }
            assert len(arrays["x"]) == part.size
            return whole.of_rows(arrays), {"row": np.arange(part.size).reshape(steps, BATCH)}

        with ExitStack() as all_open, Times("row", jnp.asarray(times)):
            feeds = [all_open.enter_context(beyond.feeding(whole, key)) for beyond in beyonds]
            return run(title, step, whole, state, key, plan.settings, hooks=Hooks(feed=feed))

    start = plan.approximation.start
    vi = fitted("VI", plan.vi_step(), plan.vi_state(start), keys.vi)
    plan = plan.sized(vi.params, keys.spread)
    posterior, predictor = FittedPosterior(plan.approximation, vi.params), plan.predictors.on()
    expectation, key = plan.expectation, keys.decisions
    decisions = decide(PROBLEM.task, posterior, predictor, expectation, key)
    plan = plan.with_scale(vi.params, decisions, keys)
    assert plan.scale is not None
    np.testing.assert_allclose(plan.scale, scale, rtol=1e-5)
    state = plan.state(vi.params, decisions)
    calibrated = fitted("calibrated", plan.step(plan.scale), state, keys.calibrated)
    alone = opened(PROBLEM, stream_in(folder), 100, keys.setup)
    posterior, predictor = FittedPosterior(plan.approximation, calibrated.params), plan.predictors
    decided = alone.decisions(PROBLEM, posterior, predictor.on(), plan.expectation, keys)
    fits = {"VI": vi, "LCVI": calibrated}
    named = {f"{name} {n}": v for name, fit in fits.items() for n, v in fit.params.items()}
    bounds = {f"{name} bound": fit.bound for name, fit in fits.items()}
    arrays = {**named, **bounds, "decisions": decided}
    return {name: np.array(value) for name, value in arrays.items()}
