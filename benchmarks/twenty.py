"""Twenty simulated data sets each, where the model learns its noise: what default decisions cost.

Run `python -m benchmarks.twenty linear logistic`. For each data set `choose` tries its default
ways, and all of them decide for rows held out. A way is reliably worse than plain VI where the 95 %
interval of the difference lies above zero. `--bare` leaves out the choice: plain VI and the
calibrated fit alone; `--natural` takes natural gradients whose rate falls to nothing, for which
some hundred steps are enough; `--full` takes a guide that can follow correlated slopes. Rows are
kept in docs/twenty.json as soon as they are found.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer.autoguide import AutoMultivariateNormal

import stakes
from benchmarks.against.ways import falling
from stakes.study import Clustered, interval

RESULTS = Path(__file__).parents[1] / "docs/twenty.json"
HELD_OUT = 2_000
PLAIN = "plain VI"
CHOSEN = "as chosen"


class Case(NamedTuple):
    """A kind of problem, of which there are many data sets."""

    model: Callable[..., None]
    loss: Any
    simulate: Callable[[np.random.Generator], tuple[dict[str, Any], dict[str, Any]]]
    """Data to fit, and data held out."""


def linear(x: Any, y: Any = None) -> None:
    slopes = numpyro.sample("slopes", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(2))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(x @ slopes, noise), obs=y)


def logistic(x: Any, y: Any = None) -> None:
    slopes = numpyro.sample("slopes", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ slopes), obs=y)


def five_to_one(outcome: Any, decision: Any) -> Any:
    """The square of what was missed, five times that where the decision was too low."""
    return jnp.where(outcome > decision, 5.0, 1.0) * jnp.square(outcome - decision)


def _linear_data(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """40 rows and ten covariates, of which two are correlated by 0.95; the noise is one."""
    x = rng.normal(size=(40 + HELD_OUT, 10))
    x[:, 1] = 0.95 * x[:, 0] + np.sqrt(1 - 0.95**2) * x[:, 1]
    y = x @ rng.normal(size=10) + rng.normal(size=len(x))
    return _split(x, y, 40)


def _logistic_data(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """1,000 rows and five covariates."""
    x = rng.normal(size=(1_000 + HELD_OUT, 5))
    y = rng.random(len(x)) < 1 / (1 + np.exp(-x @ rng.normal(size=5)))
    return _split(x, y.astype(float), 1_000)


def _split(x: np.ndarray, y: np.ndarray, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"x": x[:rows], "y": y[:rows]}, {"x": x[rows:], "y": y[rows:]}


CASES = {
    "linear": Case(linear, stakes.Tilted(0.1), _linear_data),
    "logistic": Case(logistic, five_to_one, _logistic_data),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.twenty", description=__doc__)
    parser.add_argument("names", nargs="+", choices=CASES)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30_000, help="of each fit at most")
    parser.add_argument("--natural", action="store_true", help="natural gradients, falling rate")
    parser.add_argument("--bare", action="store_true", help="without the choice")
    parser.add_argument("--full", action="store_true", help="with a full-rank guide")
    asked = parser.parse_args()
    # All data sets of a case have the same shape: the programs compiled for the first serve all.
    jax.config.update("jax_compilation_cache_dir", tempfile.mkdtemp())
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    fits = f"{asked.steps} steps" + (" of natural gradients" if asked.natural else "")
    options = falling(asked.steps) if asked.natural else stakes.Options(steps=asked.steps)
    guide = AutoMultivariateNormal if asked.full else None
    fits += ", full rank" if asked.full else ""
    for name in asked.names:
        for seed in range(asked.sets):
            kept(name, seed, fits, options, bare=asked.bare, guide=guide)
        print(summary(name))


def kept(
    name: str, seed: int, fits: str, options: stakes.Options, *, bare: bool, guide: Any
) -> None:
    """Find the row of a data set, unless it is there."""
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    title = f"{name}, {'without the choice' if bare else 'with the choice'}, {fits}"
    rows = found.setdefault(title, {})
    if str(seed) not in rows:
        rows[str(seed)] = row(CASES[name], seed, options, bare=bare, guide=guide)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(name, seed, rows[str(seed)], flush=True)


def row(
    case: Case, seed: int, options: stakes.Options, *, bare: bool, guide: Any = None
) -> dict[str, Any]:
    """By way: by how much its decisions cost more than plain VI's, in per cent, with interval.

    And the share of outcomes held out that lie below its decisions.
    """
    data, new = case.simulate(np.random.default_rng(seed))
    problem = stakes.Problem(case.model, outcome="y", loss=case.loss, guide=guide)
    asked, key = {"x": new["x"]}, jax.random.key(seed)
    made: dict[str, Any]
    if bare:
        result = stakes.calibrate(key, problem, data, options=options, progress=False)
        made = {PLAIN: result.decide(asked, new="row", fit=result.vi)}
        made["calibrated"] = result.decide(asked, new="row")
        chosen = None
    else:
        choice = stakes.choose(key, problem, data, options=options, progress=False)
        chosen = choice.chosen
        made = {way: choice.decide(asked, new="row", way=way) for way in choice.table.index}
        made[CHOSEN] = made[chosen]
    costs = {
        way: np.asarray(case.loss(jnp.asarray(new["y"]), jnp.asarray(decisions.values)), float)
        for way, decisions in made.items()
    }
    return {
        "chosen": chosen,
        "ways": {way: _more(costs[PLAIN], costs[way]) for way in costs},
        "below": {way: round(float((new["y"] < d.values).mean()), 4) for way, d in made.items()},
    }


def _more(plain: np.ndarray, costs: np.ndarray) -> list[float]:
    """Per cent, and the ends of the interval."""
    if np.array_equal(plain, costs):
        return [0.0, 0.0, 0.0]
    found = interval(plain, costs, Clustered(np.arange(len(plain))))
    more = costs.mean() / plain.mean() - 1
    return [round(100 * float(value), 2) for value in (more, -found.high, -found.low)]


def summary(name: str) -> str:
    """How often each way is reliably worse than plain VI, and reliably better."""
    lines = []
    for title, rows in json.loads(RESULTS.read_text()).items():
        if not title.startswith(name):
            continue
        lines.append(f"{title}: {len(rows)} data sets")
        for way in next(iter(rows.values()))["ways"]:
            found = np.array([each["ways"][way] for each in rows.values()])
            worse, better = (found[:, 1] > 0).sum(), (found[:, 2] < 0).sum()
            lines.append(
                f"  {way}: worse {worse}, better {better}, mean {found[:, 0].mean():+.2f} %"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
