"""Steps and seconds to the same ELBO: our optimisers against NumPyro's SVI with tuned Adams.

Run `python -m benchmarks.steps`, with names of problems for some of them. Every run is stopped now
and then and its ELBO estimated with the same draws of θ. What is to be reached is the best that
NumPyro's SVI ends with, over two step sizes, constant or falling along a cosine, less two standard
errors; `-` where it is not reached. Seconds are without compiling.
"""

import argparse
import time
from collections.abc import Callable, Iterator
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
from stakes.host.text_tables import text_table
from stakes.optimise import VI, FitSettings, adam, bound, compiled
from stakes.port import Batches, params_in

DRAWS, CHUNK = 10, 100
RATES = (0.03, 0.1)
OURS = {
    "Adam (default)": adam,
    "natural gradients, 0.1": stakes.natural_gradient,
    "natural gradients, 0.5": lambda: stakes.natural_gradient(0.5),
}
Trace = list[tuple[int, float, np.ndarray]]
"""Steps, seconds and estimates of the ELBO, each time that a run was stopped."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SEVEN))
    parser.add_argument("--steps", type=int, default=6_000)
    asked = parser.parse_args()
    rows = [["problem", "optimiser", "ELBO at the end", "steps", "seconds"]]
    for name in asked.names:
        rows += table(name, asked.steps)
    print("\n".join(text_table(rows, right={2, 3, 4})))


def table(name: str, steps: int) -> list[list[str]]:
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
    target = end.mean() - 2 * end.std(ddof=1) / np.sqrt(end.size)
    first = min(theirs, key=lambda run: reached(theirs[run], target))
    runs = {first: theirs[first]}
    runs |= {ours: traced(of(approximation, OURS[ours]()), judge, steps) for ours in OURS}
    found = []
    for run, trace in runs.items():
        count, seconds = reached(trace, target)
        told = [f"{count}", f"{seconds:.2f}"] if np.isfinite(count) else ["-", "-"]
        found.append([name, run, f"{trace[-1][2].mean():.2f}", *told])
    return found


def reached(trace: Trace, target: float) -> tuple[float, float]:
    """Steps and seconds after which the ELBO was first as good as that; infinite where never."""
    there = ((count, seconds) for count, seconds, elbo in trace if elbo.mean() >= target)
    return next(there, (float("inf"), float("inf")))


def traced(run: Iterator[Any], judge: Callable[[Any], np.ndarray], steps: int) -> Trace:
    """The run as far as that, judged at first often and then more and more seldom."""
    next(run)  # compiles
    trace: Trace = []
    seconds = 0.0
    due = CHUNK
    for count in range(2 * CHUNK, steps + 1, CHUNK):
        started = time.perf_counter()
        params = next(run)
        seconds += time.perf_counter() - started
        if count >= due:
            trace.append((count, seconds, judge(params)))
            due = max(count + CHUNK, int(count * 1.2))
    return trace


def judged(approximation: NumPyroApproximation, parts: int = 64) -> Callable[[Any], np.ndarray]:
    """Estimates of the ELBO at some parameters, with draws that are the same for all."""
    batches = Batches(jax.random.key(5), approximation.subsamples).take(0, parts)
    keys = jax.random.split(jax.random.key(9), parts)

    @jax.jit
    def judge(approximation: NumPyroApproximation, params: Any, batches: Any) -> Any:
        def one(x: Any) -> Any:
            key, batch = x
            part = params_in(approximation, params, batch)
            return bound(approximation, None, 8, key, batch, part, None)[0]

        return jax.lax.map(one, (keys, batches))

    return lambda params: np.asarray(judge(approximation, params, batches))


def of(approximation: NumPyroApproximation, optimizer: Any) -> Iterator[Any]:
    """Parameters after each chunk of our plain VI, at one step size."""
    settings = FitSettings(draws=DRAWS, optimizer=optimizer)
    chunk, state = compiled(VI().step(settings)), VI().init(approximation.start, settings)
    state = jax.tree.map(lambda leaf: jnp.array(leaf, leaf.dtype), state)
    schedule, done = Batches(jax.random.key(1), approximation.subsamples), 0
    while True:
        numbers = np.arange(done, done + CHUNK)
        batches = schedule.take(done, CHUNK)
        state, info = chunk(approximation, state, jax.random.key(2), numbers, batches)
        jax.block_until_ready(info)
        done += CHUNK
        yield state.variables["params"]


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
