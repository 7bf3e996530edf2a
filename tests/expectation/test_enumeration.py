"""The values that stand for a long stretch of whole numbers, against the sum over all of them."""

import numpy as np
import pytest

from stakes.expectation.enumeration import NODES, _stretch


@pytest.mark.parametrize("length", [100, 512, 4096])
def test_a_stretch_sums_polynomials_as_all_of_its_values_do(length: int) -> None:
    """Of any degree below the number of values that stand for it, or half that for every other."""
    values, counts, coarse = _stretch(length)
    every = np.arange(length, 2 * length)
    for degree in range(NODES):
        whole = np.sum((every / length) ** degree)
        assert np.sum(counts * (values / length) ** degree) == pytest.approx(whole, rel=1e-6)
        if degree <= NODES // 2:
            assert np.sum(coarse * (values / length) ** degree) == pytest.approx(whole, rel=1e-6)


def test_a_stretch_is_of_whole_numbers_that_reach_its_ends() -> None:
    values, counts, _ = _stretch(1024)
    assert (values == np.round(values)).all()
    assert values[0] == 1024
    assert values[-1] == 2047
    assert counts.sum() == pytest.approx(1024)
