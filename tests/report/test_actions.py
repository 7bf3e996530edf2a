"""Actions by classes in the report."""

import jax
import numpy as np
import pytest
from small_models import CALLS, YES, coins

from stakes import CostTable, Problem, calibrate, report
from stakes.report.actions import THRESHOLDS, class_names


@pytest.mark.slow
def test_actions_are_counted_by_class_and_cost_what_the_comparison_says():
    problem = Problem(coins, outcome="y", loss=CALLS)
    result = calibrate(jax.random.key(0), problem, YES, steps=200, draws=4, progress=False)
    found = report.summarise(result, title="Calls").actions
    assert found.actions == ("call", "skip")
    decided = result.decisions.values
    for row, action in enumerate(found.actions):
        for outcome in (0, 1):
            both = (decided == action) & (YES["y"] == outcome)
            assert found.counts[row][outcome] == both.sum()
            assert found.costs[row][outcome] == both.sum() * CALLS.costs[row][outcome]
    assert np.sum(found.costs) == pytest.approx(24 * result.compare().risk["LCVI"])
    for line, threshold in zip(found.benefits, THRESHOLDS, strict=True):
        weight = threshold / (1 - threshold)
        on_all = 1000 * np.mean([y - weight * (1 - y) for y in YES["y"]])
        assert line.on_all == pytest.approx(on_all, abs=1e-10)


def test_classes_of_a_number_are_named_by_their_edges():
    table = CostTable({"leave": [0, 10, 90], "mend": [30, 30, 30]}, bins=[1.0, 3.5])
    assert class_names(table) == ("below 1", "1 to 3.5", "3.5 or more")
