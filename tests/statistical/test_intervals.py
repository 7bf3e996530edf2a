"""How often 95 % intervals of a reduction hold the truth, where two sets of costs are alike.

Messages also say how often the simple interval does, which takes all instances to be independent
and their means to be normal. The quick versions fail by chance once in 100,000 times each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from scipy import signal, stats

from stakes.study import Clustered, Crossed, Dependence, Independent, Ordered, interval

SIMULATIONS, FEW = 1000, 60
Draw = Callable[[np.random.Generator], np.ndarray]


class Pair(NamedTuple):
    base: np.ndarray
    other: np.ndarray


def twice(draw: Draw) -> Callable[[np.random.Generator], Pair]:
    """Two independent sets of costs of the same distribution."""
    return lambda rng: Pair(draw(rng), draw(rng))


def normal(count: int) -> Draw:
    return lambda rng: 10 + rng.normal(size=count)


def autoregressive(count: int, correlation: float = 0.5) -> Draw:
    def draw(rng: np.random.Generator) -> np.ndarray:
        noise = np.sqrt(1 - correlation**2) * rng.normal(size=count + 50)
        return 10 + signal.lfilter([1.0], [1.0, -correlation], noise)[50:]

    return draw


def crossed(users: int, items: int, by_user: float, by_item: float = 0.0) -> Draw:
    """These shares of the variance come from the user and from the item."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        user, item = rng.normal(size=(users, 1)), rng.normal(size=(1, items))
        own = np.sqrt(1 - by_user - by_item) * rng.normal(size=(users, items))
        return (10 + np.sqrt(by_user) * user + np.sqrt(by_item) * item + own).ravel()

    return draw


def lognormal(count: int, spread: float) -> Draw:
    return lambda rng: rng.lognormal(0, spread, count)


def exponential(count: int) -> Draw:
    return lambda rng: rng.exponential(size=count)


def in_proportion(count: int) -> Callable[[np.random.Generator], Pair]:
    """Heavy-tailed costs that differ by a factor with mean one."""

    def draw(rng: np.random.Generator) -> Pair:
        base = rng.lognormal(0, 2.5, count)
        return Pair(base, base * rng.lognormal(-0.045, 0.3, count))

    return draw


def days(count: int, shops: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Costs of shops, a fifth of whose variance is that of the day, which resembles the last."""
    of_days = autoregressive(count)

    def draw(rng: np.random.Generator) -> np.ndarray:
        day, own = np.repeat(of_days(rng), shops), rng.normal(size=count * shops)
        return 10 + np.sqrt(0.2) * (day - 10) + np.sqrt(0.8) * own

    return draw


def users_and_items(users: int, items: int) -> Crossed:
    numbers = np.indices((users, items))
    return Crossed((numbers[0].ravel(), numbers[1].ravel()), ("user", "item"))


@dataclass(frozen=True)
class Case:
    draw: Callable[[np.random.Generator], Pair]
    dependence: Dependence = field(default_factory=Independent)
    least: float = 93.0
    most: float = 97.0


def of_few(draw: Callable[[np.random.Generator], Pair]) -> Case:
    return Case(draw, least=90.0, most=100.0)


CASES = {
    "100 independent": Case(twice(normal(100))),
    "400 independent": Case(twice(normal(400))),
    "AR(1) of 100": Case(twice(autoregressive(100)), Ordered()),
    "AR(1) of 400": Case(twice(autoregressive(400)), Ordered()),
    "400 independent, in order": Case(twice(normal(400)), Ordered()),
    "lognormal 1.5, 182, in order": Case(twice(lognormal(182, 1.5)), Ordered(), most=98.5),
    "lognormal 2.5, 182, in order": Case(twice(lognormal(182, 2.5)), Ordered(), most=98.5),
    "60 days of 50 shops": Case(twice(days(60, 50)), Ordered(np.repeat(np.arange(60), 50))),
    **{
        f"{users} x {items}, {by_user} by user, {by_item} by item": Case(
            twice(crossed(users, items, by_user, by_item)), users_and_items(users, items)
        )
        for users, items in ((30, 40), (50, 200))
        for by_user, by_item in ((0.05, 0.0), (0.2, 0.0), (0.05, 0.05), (0.2, 0.2))
    },
    "40 groups of 10": Case(
        twice(crossed(40, 10, 0.3)), Clustered(np.arange(400) // 10, "group"), most=98.0
    ),
    "8 groups of 50": Case(
        twice(crossed(8, 50, 0.3)), Clustered(np.arange(400) // 50, "group"), most=99.0
    ),
    "exponential, 200": Case(twice(exponential(200))),
    # The wider of two intervals: cautious, not narrow.
    "lognormal 1, 200": Case(twice(lognormal(200, 1.0)), most=98.5),
    "lognormal 2.5, 200": Case(twice(lognormal(200, 2.5)), most=98.5),
    "in proportion, 200": Case(in_proportion(200), most=98.5),
    **{f"exponential, {n}": of_few(twice(exponential(n))) for n in (8, 15, 30)},
    **{f"lognormal 1, {n}": of_few(twice(lognormal(n, 1.0))) for n in (8, 15, 30)},
    **{f"lognormal 2.5, {n}": of_few(twice(lognormal(n, 2.5))) for n in (8, 15, 30)},
    **{f"in proportion, {n}": of_few(in_proportion(n)) for n in (8, 15, 30)},
}


def simple_interval(costs: Pair) -> tuple[float, float]:
    base, other = costs
    reduction = (base - other).mean() / abs(base.mean())
    residual = (base - other) - reduction * np.sign(base.mean()) * base
    error = residual.std(ddof=1) / np.sqrt(len(base)) / abs(base.mean())
    half = stats.t.ppf(0.975, len(base) - 1) * error
    return reduction - half, reduction + half


def covered(case: Case, simulations: int, seed: int) -> tuple[int, int]:
    """How many intervals hold zero, and how many of the simple ones."""
    rng = np.random.default_rng(seed)
    ours = simple = 0
    for _ in range(simulations):
        costs = case.draw(rng)
        low, high, _ = interval(costs.base, costs.other, case.dependence)
        ours += low <= 0 <= high
        low, high = simple_interval(costs)
        simple += low <= 0 <= high
    return ours, simple


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_95_per_cent_intervals_hold_the_truth_as_often(name: str) -> None:
    """In 1,000 simulations each."""
    case = CASES[name]
    ours, simple = covered(case, SIMULATIONS, seed=1)
    share = 100 * ours / SIMULATIONS
    print(f"{name}: {share:.1f} %; simple {100 * simple / SIMULATIONS:.1f} %")
    assert case.least <= share <= case.most, f"{share} %; simple {100 * simple / SIMULATIONS} %"


QUICK = (
    "100 independent",
    "AR(1) of 100",
    "30 x 40, 0.05 by user, 0.05 by item",
    "40 groups of 10",
    "lognormal 2.5, 30",
    "lognormal 2.5, 182, in order",
    "60 days of 50 shops",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_few_intervals_hold_the_truth(name: str) -> None:
    """At least as many as 93 % coverage gives but once in 100,000 times."""
    ours, simple = covered(CASES[name], FEW, seed=2)
    assert ours >= stats.binom.ppf(1e-5, FEW, 0.93), f"{ours} of {FEW}; simple {simple}"


def test_gains_and_losses_have_the_same_interval() -> None:
    rng = np.random.default_rng(3)
    base, other = 5 + rng.normal(size=50), 4 + rng.normal(size=50)
    low, high, _ = interval(base, other)
    assert low > 0
    # Where the costs are minus a gain, a gain that falls by a fifth is worse by a fifth.
    assert interval(-base, -other)[:2] == pytest.approx((-high, -low))
    few = slice(0, 8)  # by resampling
    low, high, _ = interval(base[few], other[few])
    assert interval(-base[few], -other[few])[:2] == pytest.approx((-high, -low), rel=0.2)


def test_a_group_of_copies_counts_once() -> None:
    rng = np.random.default_rng(4)
    base, other = 5 + rng.normal(size=50), 5 + rng.normal(size=50)
    once = interval(base, other)
    copies = interval(
        np.repeat(base, 20), np.repeat(other, 20), Clustered(np.repeat(np.arange(50), 20))
    )
    assert copies[:2] == pytest.approx(once[:2])
    narrow = interval(np.repeat(base, 20), np.repeat(other, 20))
    assert narrow.high - narrow.low < 0.3 * (once.high - once.low)


@pytest.mark.parametrize("dependence", [Independent(), Clustered(np.arange(40) % 8), Ordered()])
def test_what_cannot_be_told_is_not_claimed(dependence: Dependence) -> None:
    rng = np.random.default_rng(5)
    base = 1 + rng.random(40)
    everything = (-np.inf, np.inf)
    assert interval(base, base, dependence)[:2] == (0, 0)
    assert interval(base, 0.9 * base, dependence)[:2] == pytest.approx((0.1, 0.1))
    assert interval(base * 0, base, dependence)[:2] == everything
    assert interval(base - base.mean(), base, dependence)[:2] == everything
    for strange in (np.nan, np.inf):
        other = np.where(np.arange(40) == 3, strange, base)
        assert interval(base, other, dependence)[:2] == everything
        assert interval(other, base, dependence)[:2] == everything


def test_too_few_groups_allow_no_claim() -> None:
    rng = np.random.default_rng(6)
    base, other = 5 + rng.random(30), 3 + rng.random(30)
    assert interval(base, other).low > 0.3
    few = interval(base, other, Clustered(np.arange(30) % 5, "town"))
    assert few == (-np.inf, np.inf, "clustered by town; 5 are too few")
    both = interval(base, other, Crossed((np.arange(30), np.arange(30) % 5), ("shop", "town")))
    assert both[:2] == (-np.inf, np.inf)
    assert interval(base[:20], other[:20], Ordered())[:2] == (-np.inf, np.inf)
    assert interval(base[:5], other[:5])[:2] == (-np.inf, np.inf)


def test_one_row_that_differs_among_many_is_no_evidence() -> None:
    base = np.ones(2000)
    other = np.where(np.arange(2000) == 7, 0.0, 1.0)
    low, high, method = interval(base, other)
    assert low <= 0 < high
    assert "heavy-tailed" in method


def test_part_of_the_instances_keep_their_groups() -> None:
    groups = np.arange(40) % 8
    base, other = np.random.default_rng(7).random((2, 40)) + 1
    chosen = groups < 7
    part = Clustered(groups, "town").among(chosen)
    assert part.size == chosen.sum()
    assert interval(base[chosen], other[chosen], part) == interval(
        base[chosen], other[chosen], Clustered(groups[chosen], "town")
    )
