"""Losses for classes: what a wrong one costs, and which action is best."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from small_models import CALLS

import stakes
from stakes import (
    CostTable,
)


def test_a_table_of_costs_comes_as_mapping_array_or_frame():
    rows = [[5.0, 1.0], [0.0, 20.0]]
    frame = CostTable(pd.DataFrame(rows, index=["call", "skip"]))
    assert frame.actions == CALLS.actions
    for table in (CALLS, frame, CostTable(np.array(rows))):
        costs = table(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
        np.testing.assert_array_equal(costs, [5, 1, 0, 20])
    assert np.isnan(float(CALLS(2, 0)))  # there is no such class
    assert np.isnan(float(CALLS(0, 3)))  # nor such an action


@pytest.mark.slow
def test_classes_of_a_number_are_told_by_bins():
    table = CostTable({"leave": [0, 10, 90], "mend": [30, 30, 30]}, bins=[1.0, 3.0])
    np.testing.assert_array_equal(table(np.array([0.5, 1.0, 2.9, 3.0]), 0), [0, 10, 10, 90])
    outcome = dist.Normal(jnp.array([0.0, 2.5, 6.0]), 1.0)
    found = stakes.ClosedForm().expected(None, outcome, table, jnp.zeros(3))
    middle = stats.norm(np.array([0.0, 2.5, 6.0]))
    expected = 10 * (middle.cdf(3) - middle.cdf(1)) + 90 * middle.sf(3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    counts = dist.Poisson(jnp.array([1.0, 3.0]))
    found = stakes.ClosedForm().expected(None, counts, table, jnp.zeros(2))
    twin = stats.poisson(np.array([1.0, 3.0]))
    np.testing.assert_allclose(found, 10 * (twin.cdf(2) - twin.cdf(0)) + 90 * twin.sf(2), rtol=1e-5)
