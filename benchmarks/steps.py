"""Steps and seconds to the same ELBO, against NumPyro's SVI with tuned Adams; and what "converged"
is worth.

Run `python -m benchmarks.steps`, with names of problems for some of them. Runs are looked at now
and then, and their ELBO is estimated with the same draws of θ. What is to be reached is the best
that NumPyro's SVI ends with, over two step sizes, constant or falling along a cosine, less two
standard errors; `-` where it is not reached. Ours is the default, as it would end there. Seconds
are without compiling. In the end the default goes on for twice the steps that it took to converge,
from its full step size down to nothing along a cosine: what it then gains, in standard errors.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import stakes
from benchmarks.seven import SEVEN
from stakes.bridge import NumPyroApproximation, approximate
from stakes.fitting import VI, Fit, FitSettings, History, Hooks, adam, bound, run
from stakes.port import Batches, params_in
from stakes.wording import text_table

DRAWS, CHUNK = 10, 100
RATES = (0.03, 0.1)
HEAD = ["problem", "optimiser", "ELBO at the end", "steps", "seconds"]
CONVERGED = ["problem", "ended", "steps", "ELBO", "after three times the steps", "standard errors"]
Trace = list[tuple[int, float, np.ndarray]]
"""Steps, seconds and estimates of the ELBO, each time that a run was looked at."""
Judge = Callable[[Any], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SEVEN))
    parser.add_argument("--steps", type=int, default=6_000)
    asked = parser.parse_args()
    reached, converged = [HEAD], [CONVERGED]
    for name in asked.names:
        rows, row = tables(name, asked.steps)
        reached += rows
        converged.append(row)
        print(*map("  ".join, [*rows, row]), sep="\n", flush=True)  # while the others are awaited
    print("\n".join(["", *text_table(reached, right={2, 3, 4})]))
    print("\n".join(["", *text_table(converged, right={2, 3, 4, 5})]))


def tables(name: str, steps: int) -> tuple[list[list[str]], list[str]]:
    """Rows about reaching the same ELBO, and the row about having converged."""
    problem, data = SEVEN[name]()
    approximation = approximate(problem, data, jax.random.key(0))
    judge = judged(approximation)
    theirs = {
        f"NumPyro, Adam, {kind} {rate}": traced(numpyros(problem, data, schedule), judge, steps)
        for rate in RATES
        for kind, schedule in (
            ("constant", rate),
            ("cosine", optax.cosine_decay_schedule(rate, steps)),
        )
    }
    tuned = max(theirs, key=lambda run: theirs[run][-1][2].mean())
    end = theirs[tuned][-1][2]
    target = end.mean() - 2 * error_of(end)
    first = min(theirs, key=lambda run: reached(theirs[run], target))
    trace, fit = default(approximation, judge)
    rows = [row(name, first, theirs[first], target), row(name, "stakes", trace, target)]
    return rows, having_converged(name, approximation, judge, fit)


def row(name: str, run: str, trace: Trace, target: float) -> list[str]:
    count, seconds = reached(trace, target)
    told = [f"{count}", f"{seconds:.2f}"] if np.isfinite(count) else ["-", "-"]
    return [name, run, f"{trace[-1][2].mean():.2f}", *told]


def reached(trace: Trace, target: float) -> tuple[float, float]:
    """Steps and seconds after which the ELBO was first as good as that; infinite where never."""
    there = ((count, seconds) for count, seconds, elbo in trace if elbo.mean() >= target)
    return next(there, (float("inf"), float("inf")))


def error_of(elbo: np.ndarray) -> float:
    return float(elbo.std(ddof=1) / np.sqrt(elbo.size))


def having_converged(
    name: str, approximation: NumPyroApproximation, judge: Judge, fit: Fit
) -> list[str]:
    more = 2 * fit.steps
    falling = optax.scale_by_schedule(optax.cosine_decay_schedule(1.0, more))
    optimizer = optax.chain(adam(), falling)
    settings = FitSettings(
        steps=more, draws=DRAWS, optimizer=optimizer, all_steps=True, progress=False
    )
    longer = fitted(approximation, fit.params, settings, jax.random.key(4))
    before, after = judge(fit.params), judge(longer.params)
    gain = (after.mean() - before.mean()) / error_of(before)
    elbos = [f"{elbo.mean():.2f}" for elbo in (before, after)]
    return [name, str(fit.reason), f"{fit.steps}", *elbos, f"{gain:.2f}"]


def fitted(
    approximation: NumPyroApproximation,
    params: Any,
    settings: FitSettings,
    key: Any,
    watch: Callable[[History], None] | None = None,
) -> Fit:
    state, step = VI().init(params, settings), VI().step(settings)
    return run("VI", step, approximation, state, key, settings, hooks=Hooks(watch=watch))


class Looks:
    """When to look at a run: at first often and then more and more seldom."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.trace, self.due = judge, Trace(), CHUNK

    def __call__(self, count: int, seconds: float, params: Callable[[], Any]) -> None:
        if count >= self.due:
            self.trace.append((count, seconds, self.judge(params())))
            self.due = max(count + CHUNK, int(count * 1.2))


def default(approximation: NumPyroApproximation, judge: Judge) -> tuple[Trace, Fit]:
    """The default from beginning to end, once it has been compiled by a short run."""
    fit = partial(fitted, approximation, approximation.start, key=jax.random.key(2))
    fit(settings=FitSettings(draws=DRAWS, steps=3 * CHUNK, progress=False))
    looks, seconds, since = Looks(judge), 0.0, None

    def watch(history: History) -> None:
        nonlocal seconds, since
        # Without the first chunk, before which the program is looked up.
        seconds += 0.0 if since is None else time.perf_counter() - since
        reached = history.average.over(history.state.variables)
        looks(len(history.elbo), seconds, lambda: reached["params"])
        since = time.perf_counter()

    ended = fit(settings=FitSettings(draws=DRAWS, progress=False), watch=watch)
    return looks.trace, ended


def traced(run: Iterator[Any], judge: Judge, steps: int) -> Trace:
    """The run as far as that; its first chunk, which is compiled, without the time it takes."""
    next(run)
    looks, seconds = Looks(judge), 0.0
    for count in range(2 * CHUNK, steps + 1, CHUNK):
        started = time.perf_counter()
        params = next(run)
        seconds += time.perf_counter() - started
        looks(count, seconds, partial(lambda params: params, params))
    return looks.trace


def judged(approximation: NumPyroApproximation, parts: int = 64) -> Judge:
    """Estimates of the ELBO at some parameters, with draws that are the same for all."""
    batches = Batches(jax.random.key(5), approximation.subsamples).take(0, parts)
    keys = jax.random.split(jax.random.key(9), parts)

    @jax.jit
    def judge(approximation: NumPyroApproximation, params: Any, batches: Any) -> Any:
        def one(x: Any) -> Any:
            key, batch = x
            part = params_in(approximation, params, batch)
            return bound(approximation, None, 8, key, batch, part, None, independent=True)[0]

        return jax.lax.map(one, (keys, batches))

    return lambda params: np.asarray(judge(approximation, params, batches))


def numpyros(problem: stakes.Problem, data: dict[str, Any], rate: Any) -> Iterator[Any]:
    model, constants = problem.model, {k: v for k, v in data.items() if isinstance(v, int)}
    arrays = {k: jnp.asarray(v) for k, v in data.items() if k not in constants}
    elbo = Trace_ELBO(num_particles=DRAWS)
    svi = SVI(model, AutoNormal(model), optax.adam(rate), elbo, **constants)
    state = svi.init(jax.random.key(0), **arrays)

    @jax.jit
    def chunk(state: Any, arrays: Any) -> Any:
        return jax.lax.scan(lambda state, _: svi.update(state, **arrays), state, None, CHUNK)

    while True:
        state, losses = chunk(state, arrays)
        jax.block_until_ready(losses)
        yield svi.optim.get_params(state.optim_state)


if __name__ == "__main__":
    main()
