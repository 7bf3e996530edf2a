"""Decisions with several parts: the best of all that can be decided together."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from normal_mixtures import LOCS, SCALES, best_parts
from scipy import optimize, stats
from small_models import DATA, regression

import stakes
from stakes import (
    EM,
    InputError,
    Integers,
    Interval,
    IntervalScore,
    Joint,
    OneOf,
    Problem,
    Real,
    Squared,
    Tilted,
    Vector,
    calibrate,
)

KEY = jax.random.key(0)
LEVELS = (np.arange(4000) + 0.5) / 4000


def values(case: int) -> np.ndarray:
    """Equally likely outcomes of a case."""
    return np.sort(stats.norm(LOCS[:, case, None], SCALES[:, case, None]).ppf(LEVELS).ravel())


def cover(outcome, decision):
    """Two stocks that help each other out: what is missing depends on both."""
    first, second = decision
    short = jnp.maximum(outcome - first - 0.5 * second, 0.0)
    return (
        4 * short + 0.2 * jnp.square(first) + 0.1 * jnp.square(second - 1) + 0.05 * first * second
    )


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize(
    ("space", "limits"),
    [
        pytest.param(Vector(first=Real(), second=Real()), [(-20, 20)] * 2, marks=pytest.mark.slow),
        (Vector(first=Interval(0, 2.5), second=Interval(low=0)), [(0, 2.5), (0, 20)]),
    ],
    ids=["any numbers", "within limits"],
)
def test_no_pair_of_decisions_costs_less(space, limits):
    found = best_parts(cover, space)
    for case in range(3):
        cost = lambda h, y=values(case): float(np.mean(np.asarray(cover(y, h))))  # noqa: B008, E731
        starts = [found[:, case], np.zeros(2), np.array([2.0, 4.0])]
        options = {"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-9}
        best = min(
            optimize.minimize(cost, h, method="Nelder-Mead", bounds=limits, options=options).fun
            for h in starts
        )
        assert cost(found[:, case]) <= best * (1 + 2e-4) + 1e-6
        assert (space.inside(jnp.asarray(found)) == found).all()


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision")
def test_parts_in_steps_are_the_best_of_all_pairs():
    space = Vector(first=Integers(0, 6), second=OneOf([0, 1, 5]))
    found = best_parts(cover, space)
    for case in range(3):
        y = values(case)
        costs = {(a, b): float(np.mean(cover(y, (a, b)))) for a in range(7) for b in (0, 1, 5)}
        assert costs[tuple(found[:, case].astype(int))] == pytest.approx(min(costs.values()))


@pytest.mark.parametrize("method", [None, pytest.param(EM(), marks=pytest.mark.slow)])
def test_an_interval_is_decided_end_to_end(method):
    problem = Problem(regression, outcome="y", loss=IntervalScore(0.8))
    result = calibrate(KEY, problem, DATA, method=method, steps=600, progress=False)
    decisions = result.vi_decisions
    assert decisions.dims == ("row", "part")
    drawn = result.predictive(fit=result.vi, draws=4000)["y"].values[0]
    expected = np.quantile(drawn, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(decisions.sel(part="low"), expected[0], atol=0.1)
    np.testing.assert_allclose(decisions.sel(part="high"), expected[1], atol=0.1)
    found = result.decisions
    assert (found.sel(part="low") < found.sel(part="high")).all()
    other = result.decide({"x": np.array([0.0, 3.0])}, new="row")
    assert other.shape == (2, 2)
    risk = problem.loss(DATA["y"], tuple(decisions.values.T))
    assert result.compare().risk["VI"] == pytest.approx(float(risk.mean()), rel=1e-4)


def scored(y, low, high, level):
    """The interval score, in NumPy."""
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return high - low + 2 / (1 - level) * outside


@pytest.mark.slow
def test_ways_to_an_interval_are_chosen_among_by_outcomes_they_had_not_seen():
    problem = Problem(regression, outcome="y", loss=IntervalScore(0.8))
    fold, y = np.arange(24) % 2, DATA["y"]
    ways = [stakes.Plain(), stakes.Calibrated(), stakes.Same()]
    choice = stakes.choose(KEY, problem, DATA, ways, fold, steps=300, draws=4, progress=False)
    assert list(choice.table.index) == ["plain VI", "calibrated", "one decision for all"]
    same = choice.entries[-1]
    for (low, high), mask in zip(
        same.fitted.values, (fold != 0, fold != 1, fold >= 0), strict=True
    ):
        known = y[mask]
        # No interval between two outcomes costs less.
        pairs = [(a, b) for a in known for b in known if a <= b]
        least = min(scored(known, a, b, 0.8).mean() for a, b in pairs)
        assert scored(known, low, high, 0.8).mean() <= least * (1 + 1e-5)
    judged = np.array([same.fitted.values[at] for at in fold])
    np.testing.assert_allclose(same.costs, scored(y, *judged.T, 0.8), rtol=1e-4)
    assert choice.chosen != same.name
    found = choice.decide({"x": np.array([0.0, 3.0])}, new="row")
    assert found.dims == ("row", "part")
    assert (found.sel(part="low") < found.sel(part="high")).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", [Joint(), EM()])
def test_an_interval_for_an_outcome_without_a_plate(method):
    def model(y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("mean", dist.Normal(0, 1)), 1.0), obs=y)

    problem = Problem(model, outcome="y", loss=IntervalScore(0.8))
    found = calibrate(KEY, problem, {"y": 0.3}, method=method, steps=20, progress=False).decisions
    assert found.dims == ("part",)
    assert float(found.sel(part="low")) < float(found.sel(part="high"))


@pytest.mark.slow
def test_own_losses_take_the_parts_by_name_within_limits_that_differ_by_row():
    def loss(outcome, decision):
        return jnp.square(outcome - decision.base - decision.extra) + 0.1 * decision.extra**2

    space = Vector(base=Interval(0, "room"), extra=Real())
    problem = Problem(regression, outcome="y", loss=loss, decision=space)
    data = DATA | {"room": np.linspace(0.5, 1.0, 24)}
    result = calibrate(KEY, problem, data, steps=300, draws=4, progress=False)
    base = result.decisions.sel(part="base").values
    assert ((base >= 0) & (base <= data["room"] + 1e-6)).all()


BAD = {
    "one part": lambda: Vector(low=Real()),
    "a part that is no space": lambda: Vector(low=Real(), high=3),
    "parts within parts": lambda: Vector(a=Real(), b=Vector(c=Real(), d=Real())),
    "actions in words": lambda: Vector(a=Real(), b=OneOf(["call", "skip"])),
    "a name that tuples have": lambda: Vector(count=Real(), high=Real()),
    "a word of Python": lambda: Vector(**{"class": Real(), "high": Real()}),
    "no word": lambda: Vector(**{"the low": Real(), "high": Real()}),
    "a level of one": lambda: IntervalScore(1.0),
    "a loss of numbers": lambda: Problem(
        regression, outcome="y", loss=Squared(), decision=Vector(a=Real(), b=Real())
    ),
    "an interval as a number": lambda: Problem(
        regression, outcome="y", loss=IntervalScore(0.9), decision=Real()
    ),
    "an interval with other names": lambda: Problem(
        regression, outcome="y", loss=IntervalScore(0.9), decision=Vector(a=Real(), b=Real())
    ),
    "shared parts": lambda: Problem(regression, outcome="y", loss=IntervalScore(0.9), per="all"),
    "parts of what changes the outcome": lambda: Problem(
        regression, outcome="y", loss=Tilted(0.5), decision={"x": IntervalScore(0.9).space}
    ),
    "a correction of parts": lambda: stakes.choose(
        KEY,
        Problem(regression, outcome="y", loss=IntervalScore(0.9)),
        DATA,
        [stakes.Plain(), stakes.Corrected(stakes.Plain(), stakes.Shift())],
    ),
    "what is done today in parts": lambda: stakes.choose(
        KEY,
        Problem(regression, outcome="y", loss=IntervalScore(0.9)),
        DATA,
        [stakes.Plain(), stakes.Given(np.zeros((24, 2)))],
    ),
    "a loss with a value for each part": lambda: calibrate(
        KEY,
        Problem(
            regression,
            outcome="y",
            loss=lambda y, h: jnp.square(y - jnp.stack(h)),
            decision=Vector(a=Real(), b=Real()),
        ),
        DATA,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parts_are_refused_before_any_fit(name, monkeypatch):
    def run(*args, **options):
        raise AssertionError("a fit was started")

    monkeypatch.setattr("stakes.fitting.VI.init", run)
    with pytest.raises(InputError):
        BAD[name]()
