"""What decisions have saved, with an interval."""

import numpy as np
import pytest

from examples.judging import saved, table


def test_what_is_saved_comes_with_the_interval_of_its_mean():
    rng = np.random.default_rng(0)
    costs, others = rng.normal(1, 1, 400), rng.normal(2, 1, 400)
    mean, low, high = saved(costs, others)
    less = others - costs
    assert mean == pytest.approx(less.mean())
    assert high - low == pytest.approx(2 * 1.96 * less.std(ddof=1) / 20)
    assert "saved" in table(costs, {"others": others}, "a day")
