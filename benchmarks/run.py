"""Ratios that matter, each the median of interleaved repeats in one process.

Run `make bench`. Absolute times depend on the machine and on who else uses it; ratios measured
side by side do not, or much less. Each run is a line of benchmarks/history.jsonl.
"""

import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

from benchmarks import compiling, deciding, history
from examples import matrix_factorization
from stakes import Exponential, Linearized, MonteCarlo, Problem, Squared, Tilted
from stakes._types import Params
from stakes.bridge import NumPyroApproximation, approximate
from stakes.decisions import objective_of
from stakes.expectation import ClosedForm, Enumeration
from stakes.fitting import EM, VI, FitSettings, Joint, Method, State, Step, compiled
from stakes.port import Batches
from stakes.protocols import Expectation, Loss, Transform
from stakes.wording import text_table

DRAWS, STEPS, REPEATS = 11, 100, 15
Chunk = Callable[[], None]


def main() -> None:
    ratios = {
        **row_ratios(),
        **step_ratios(),
        **count_ratios(),
        **count_factorisation_ratios(),
        **import_ratio(),
        **deciding.figures(),
        **compiling.figures(),
    }
    lines = [
        [name, f"{value:.2f}", "" if limit is None else f"{limit:.1f}"]
        for name, (value, limit) in ratios.items()
    ]
    print("\n".join(text_table([["ratio", "measured", "at most"], *lines], right={1, 2})))
    print(history.record({name: value for name, (value, _) in ratios.items()}))


def step_ratios() -> dict[str, tuple[float, float | None]]:
    """A step on 100 rows of a 1000 x 100 matrix factorisation with 20 factors, 11 draws of θ."""
    data = matrix_factorization.simulate()
    problem = Problem(matrix_factorization.model, outcome="y", loss=Squared())
    approximation = approximate(problem, data, jax.random.key(0))
    exact, published = ClosedForm(), MonteCarlo(draws=1)
    runs = {
        "VI": plain(approximation),
        "NumPyro SVI": numpyros(data),
        "linearized squared": calibrated(approximation, Squared(), Linearized(scale=1.0), exact),
        "linearized tilted": calibrated(approximation, Tilted(0.2), Linearized(scale=1.0), exact),
        "exponential squared": calibrated(approximation, Squared(), Exponential(scale=1.0), exact),
        "exponential tilted": calibrated(approximation, Tilted(0.2), Exponential(scale=1.0), exact),
        "EM, Bayes decisions": calibrated(
            approximation, Squared(), Linearized(scale=1.0), exact, EM()
        ),
        "as published": calibrated(
            approximation, Squared(), Exponential(scale=1.0), published, draws=300
        ),
    }
    seconds = interleaved(runs)
    vi = seconds["VI"]
    table: dict[str, tuple[float, float | None]] = {
        "VI step / NumPyro SVI.update step": (vi / seconds["NumPyro SVI"], 1.0)
    }
    for name in list(runs)[2:6]:
        limit = 1.2 if name == "exponential tilted" else 1.3
        table[f"calibrated step / VI step: {name}"] = (seconds[name] / vi, limit)
    for name, limit in (("EM, Bayes decisions", 1.5), ("as published", None)):
        table[f"{name} step / VI step"] = (seconds[name] / vi, limit)
    return table


def count_ratios() -> dict[str, tuple[float, float | None]]:
    """A step of a regression of 1,000 counts, or of zeros and ones, on five covariates.

    Of negative binomial counts, the spread is learned, too.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000, 5)).astype(np.float32)
    log_rate = 1 + 0.3 * x @ rng.normal(size=5)
    counts = {"x": x, "y": rng.poisson(np.exp(log_rate)).astype(np.float32)}
    labels = {"x": x, "y": (rng.random(1_000) < 1 / (1 + np.exp(-log_rate))).astype(np.float32)}

    def regression(outcome: Callable[[jax.Array], dist.Distribution]) -> Callable[..., None]:
        def model(x: jax.Array, y: jax.Array | None = None) -> None:
            slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([5]).to_event(1))
            drawn = outcome(x @ slopes)
            with numpyro.plate("row", len(x)):
                numpyro.sample("y", drawn, obs=y)

        return model

    def overdispersed(eta: jax.Array) -> dist.Distribution:
        return dist.NegativeBinomial2(jnp.exp(eta), numpyro.sample("spread", dist.LogNormal(1, 1)))

    def asymmetric(outcome: jax.Array, decision: jax.Array) -> jax.Array:
        return jnp.where(outcome > decision, 5.0, 1.0) * jnp.square(outcome - decision)

    m = Linearized(scale=1.0)
    of = Problem(regression(lambda eta: dist.Poisson(jnp.exp(eta))), outcome="y", loss=Squared())
    poisson = approximate(of, counts, jax.random.key(0))
    of = Problem(regression(lambda eta: dist.Bernoulli(logits=eta)), outcome="y", loss=Squared())
    bernoulli = approximate(of, labels, jax.random.key(0))
    of = Problem(regression(overdispersed), outcome="y", loss=Squared())
    negative_binomial = approximate(of, counts, jax.random.key(0))
    paper = Linearized(scale=1.0, regret=False)
    seconds = interleaved(
        {
            "VI": plain(poisson),
            "tilted": calibrated(poisson, Tilted(0.8), m, ClosedForm()),
            "tilted, paper": calibrated(poisson, Tilted(0.8), paper, ClosedForm()),
            "VI, negative binomial": plain(negative_binomial),
            "negative binomial": calibrated(negative_binomial, Tilted(0.8), m, ClosedForm()),
            "VI, zeros and ones": plain(bernoulli),
            "zeros and ones": calibrated(bernoulli, Tilted(0.8), m, ClosedForm()),
            "own": calibrated(bernoulli, asymmetric, m, Enumeration()),
            "own, paper": calibrated(bernoulli, asymmetric, paper, Enumeration()),
        }
    )
    return {
        "calibrated step / VI step: counts, tilted, paper's form": (
            seconds["tilted, paper"] / seconds["VI"],
            1.5,
        ),
        "calibrated step / VI step: counts, tilted": (seconds["tilted"] / seconds["VI"], 2.0),
        "calibrated step / VI step: negative binomial counts, tilted": (
            seconds["negative binomial"] / seconds["VI, negative binomial"],
            2.0,
        ),
        "calibrated step / VI step: zeros and ones, tilted": (
            seconds["zeros and ones"] / seconds["VI, zeros and ones"],
            2.0,
        ),
        "own loss, zeros and ones: regret / the paper's form": (
            seconds["own"] / seconds["own, paper"],
            3.0,
        ),
    }


def counts(
    observed: jax.Array, y: jax.Array | None = None, factors: int = 20, batch: int = 100
) -> None:
    """The factorisation for counts with a mean around 20."""
    rows, columns = observed.shape
    column = numpyro.plate("column", columns, dim=-1)
    with numpyro.plate("factor", factors, dim=-2), column:
        w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("row", rows, subsample_size=min(batch, rows), dim=-2) as members:
        with numpyro.plate("row_factor", factors, dim=-1):
            z = numpyro.sample("z", dist.Normal(0, 1))
        with column, numpyro.handlers.mask(mask=observed[members]):
            seen = None if y is None else y[members]
            numpyro.sample("y", dist.Poisson(20 * jnp.exp(0.1 * (z @ w))), obs=seen)


def count_factorisation_ratios() -> dict[str, tuple[float, float | None]]:
    """A step as in `step_ratios`, for counts."""
    observed = matrix_factorization.simulate()["observed"]
    y = jnp.asarray(np.random.default_rng(0).poisson(20, observed.shape), float)
    problem = Problem(counts, outcome="y", loss=Squared())
    approximation = approximate(problem, {"observed": observed, "y": y}, jax.random.key(0))
    loss, exact = Tilted(0.8), ClosedForm()
    seconds = interleaved(
        {
            "VI": plain(approximation),
            "paper": calibrated(approximation, loss, Linearized(scale=1.0, regret=False), exact),
            "regret": calibrated(approximation, loss, Linearized(scale=1.0), exact),
        }
    )
    name = "calibrated step / VI step: factorisation of counts, tilted"
    return {
        f"{name}, paper's form": (seconds["paper"] / seconds["VI"], 1.5),
        name: (seconds["regret"] / seconds["VI"], 2.0),
    }


def row_ratios() -> dict[str, tuple[float, float | None]]:
    """A calibrated step on 100 of a million rows, over one on 100 of a thousand; and the memory."""

    def of(rows: int) -> Chunk:
        data = matrix_factorization.simulate(rows=rows)
        problem = Problem(matrix_factorization.model, outcome="y", loss=Squared())
        approximation = approximate(problem, data, jax.random.key(0))
        return calibrated(approximation, Squared(), Linearized(scale=1.0), ClosedForm())

    million = of(1_000_000)
    million()
    gibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = interleaved({"million": million, "thousand": of(1_000)}, repeats=5)
    return {
        "step at 1,000,000 rows / step at 1,000 rows": (
            seconds["million"] / seconds["thousand"],
            1.5,
        ),
        "memory with 1,000,000 rows, GiB": (gibibytes, 2.5),
    }


def calibrated(
    approximation: NumPyroApproximation,
    loss: Loss,
    transform: Transform,
    expectation: Expectation,
    method: Method = Joint(),  # noqa: B008
    draws: int = DRAWS,
) -> Chunk:
    settings = FitSettings(draws=draws)
    gain = transform(loss, transform.scale or 1.0)
    decisions = jnp.zeros(approximation.instances.shape)
    state = method.init(_own(approximation.start), decisions, settings)
    step = method.step(objective_of(gain, expectation.for_steps()), settings)
    return ours(approximation, state, step)


def plain(approximation: NumPyroApproximation) -> Chunk:
    settings = FitSettings(draws=DRAWS)
    state = VI().init(_own(approximation.start), settings)
    return ours(approximation, state, VI().step(settings))


def _own(params: Params) -> Params:
    """A copy: a chunk takes over the memory of the state that it is given."""
    return jax.tree.map(jnp.array, params)


def ours(approximation: NumPyroApproximation, state: State, step: Step) -> Chunk:
    chunk = compiled(step)
    held = [state]
    batches = Batches(jax.random.key(0), approximation.subsamples).take(0, STEPS)
    numbers = np.arange(STEPS)

    def run() -> None:
        held[0], info = chunk(approximation, held[0], jax.random.key(0), numbers, batches)
        jax.block_until_ready(info)

    return run


def numpyros(data: dict[str, jax.Array]) -> Chunk:
    model = matrix_factorization.model
    svi = SVI(model, AutoNormal(model), optax.adam(0.03), Trace_ELBO(num_particles=DRAWS))
    held = [svi.init(jax.random.key(0), **data)]

    @jax.jit
    def chunk(state, data):
        return jax.lax.scan(lambda state, _: svi.update(state, **data), state, None, STEPS)

    def run() -> None:
        held[0], losses = chunk(held[0], data)
        jax.block_until_ready(losses)

    return run


def interleaved(runs: dict[str, Chunk], repeats: int = REPEATS) -> dict[str, float]:
    """Median seconds of each, taken in turns so that a busy spell hits all of them.

    The order changes, since what follows a run with much memory finds nothing in the caches.
    """
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    order = random.Random(0)
    for _ in range(repeats):
        for name in order.sample(list(runs), len(runs)):
            start = time.perf_counter()
            runs[name]()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def import_ratio() -> dict[str, tuple[float, float | None]]:
    """In processes with bytecode for all, as pip leaves it, and not just for what pip installed."""

    def importing(what: str) -> Chunk:
        command = [sys.executable, "-c", f"import {what}"]
        return lambda: subprocess.run(command, check=True, env=environment) and None

    with compiling.installed() as environment:
        seconds = interleaved(
            {"stakes": importing("stakes; stakes.calibrate"), "base": importing("jax, numpyro")}
        )
    return {"import stakes / import jax, numpyro": (seconds["stakes"] / seconds["base"], 1.1)}


if __name__ == "__main__":
    main()
