"""Homes and counties, and the loss."""

import numpy as np

from examples import radon


def test_radon_puts_every_home_in_one_part_with_the_uranium_of_all_counties():
    fitted, others = radon.data(), radon.held_out()
    assert len(fitted["county"]) + len(others["county"]) == 919
    assert len(others["county"]) == 184
    np.testing.assert_array_equal(fitted["uranium"], others["uranium"])
    assert len(fitted["uranium"]) == 85


def test_radon_makes_underestimates_the_dear_ones():
    loss = radon.problem().loss
    assert loss(3.0, 1.0) > 2 * loss(1.0, 3.0)
