"""The paper's first experiment: sign and size, against the risks without evaluation noise."""

import jax
import pytest

from stakes import Linearized
from stakes.demos import eight_schools

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(10))
def test_calibration_reduces_the_risk_by_one_per_cent_for_each_seed(seed):
    comparison = eight_schools.solve(jax.random.key(seed), Linearized(scale=7)).compare()
    print(seed, comparison.risk, comparison.reduction)
    assert comparison.risk["VI"] == pytest.approx(3.033, abs=0.01)
    assert comparison.risk["LCVI"] == pytest.approx(3.004, abs=0.01)
    assert 0.008 <= comparison.reduction <= 0.0115


@pytest.mark.parametrize("seed", range(3))
def test_a_smaller_scale_calibrates_more(seed):
    comparison = eight_schools.solve(jax.random.key(seed), Linearized(scale=3)).compare()
    print(seed, comparison.risk, comparison.reduction)
    assert comparison.risk["LCVI"] == pytest.approx(2.983, abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_a_huge_scale_gives_back_plain_vi(seed):
    comparison = eight_schools.solve(jax.random.key(seed), Linearized(scale=1e6)).compare()
    print(seed, comparison.risk, comparison.reduction)
    assert comparison.reduction == pytest.approx(0, abs=0.0005)
