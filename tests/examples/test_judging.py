"""What decisions have saved, with an interval."""

import numpy as np

from examples.judging import saving, table
from stakes.study import Clustered, Independent, interval


def test_what_is_saved_comes_with_the_interval_of_the_library():
    rng = np.random.default_rng(0)
    costs, others = rng.gamma(4, 1, 400), rng.gamma(5, 1, 400)
    groups = Clustered(np.arange(400) // 20)
    for dependence in (Independent(), groups):
        low, high, _ = interval(others, costs, dependence)
        saved = f"{100 * (1 - costs.mean() / others.mean()):.1f} %"
        words = f"{saved} ({100 * low:.1f} to {100 * high:.1f} %)"
        assert saving(costs, others, dependence) == words
        assert f"saved {words}" in table(costs, {"others": others}, "a day", dependence)
    assert saving(costs, others) == saving(costs, others, Independent())


def test_too_few_cases_are_no_claim():
    assert "too few" in saving(np.array([1.0, 2.0]), np.array([2.0, 3.0]))


def test_gains_are_minus_costs():
    earned = np.array([1.0, 2.0, 3.0, 4.0])
    assert saving(-1.5 * earned, -earned).startswith("50.0 %")
