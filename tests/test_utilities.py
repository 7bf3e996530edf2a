"""Transforms from losses to utilities: what they accept, refuse and compute."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from stakes import (
    Absolute,
    Exponential,
    ExpUtility,
    InputError,
    Linearized,
    StakesWarning,
    Tilted,
    Utility,
)
from stakes.utilities import ScaledLoss

both_transforms = pytest.mark.parametrize("transform", [Linearized, Exponential])


def hit(outcome, decision):
    return jnp.exp(-jnp.square(outcome - decision))


def test_a_utility_calls_the_function_and_takes_its_logarithm():
    utility = Utility(hit)
    assert utility(1.0, 1.0) == 1.0
    np.testing.assert_allclose(utility.log(3.0, 1.0), -4.0, rtol=1e-6)


def test_a_utility_with_infimum_zero_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Utility(hit)


def test_a_utility_with_an_infimum_above_zero_warns_that_it_weakens_calibration():
    with pytest.warns(StakesWarning, match=r"`Utility\(infimum=0.3\)`.*weakens the calibration"):
        Utility(hit, infimum=0.3)


def test_the_warning_points_at_the_line_that_made_the_utility():
    with pytest.warns(StakesWarning) as caught:
        Utility(hit, infimum=0.3)
    assert caught[0].filename == __file__


def test_a_program_without_a_name_is_warned_too():
    """As code run by `exec` may be."""
    program = "import stakes; stakes.Utility(lambda y, h: 1 + 0 * y, infimum=1.0)"
    with pytest.warns(StakesWarning, match="weakens"):
        exec(program, {})


@pytest.mark.parametrize("infimum", [-0.1, float("inf"), float("nan")])
def test_a_utility_with_an_impossible_infimum_is_refused(infimum):
    with pytest.raises(InputError, match=r"`Utility\(infimum=...\)` must be .* of at least 0"):
        Utility(hit, infimum=infimum)


def test_a_utility_that_cannot_be_called_is_refused():
    with pytest.raises(InputError, match=r"`Utility\(fn=...\)` must be a function of .*; got 3"):
        Utility(3)


def test_an_exponential_utility_keeps_its_logarithm_where_it_underflows():
    utility = ExpUtility(Absolute(), 0.001)
    assert utility(0.0, 1.0) == 0.0
    np.testing.assert_allclose(utility.log(0.0, 1.0), -1000.0, rtol=1e-6)


def test_the_transforms_carry_loss_and_scale():
    assert Linearized()(Tilted(0.2), 3.0) == ScaledLoss(Tilted(0.2), 3.0)
    assert Exponential()(Tilted(0.2), 3.0) == ExpUtility(Tilted(0.2), 3.0)


@both_transforms
@pytest.mark.parametrize("quantile", [0.0, -0.1, 1.1, 90, float("nan")])
def test_a_quantile_outside_zero_and_one_is_refused_with_a_way_out(transform, quantile):
    name = transform.__name__
    with pytest.raises(
        InputError, match=rf"`{name}\(quantile=...\)` must be.*most 1.*`{name}\(scale"
    ):
        transform(quantile=quantile)


@both_transforms
@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_that_is_not_positive_and_finite_is_refused(transform, scale):
    name = transform.__name__
    with pytest.raises(InputError, match=rf"`{name}\(scale=...\)`.*must be .* above 0"):
        transform(scale=scale)


@both_transforms
def test_the_scale_is_the_quantile_of_the_losses(transform):
    losses = np.arange(11.0)
    assert transform(quantile=0.9).fitted(losses) == transform(quantile=0.9, scale=9.0)
    assert transform(quantile=1.0).fitted(losses).scale == 10.0


@both_transforms
def test_a_scale_given_by_hand_wins_over_the_losses(transform):
    assert transform(scale=7.0).fitted(np.arange(11.0)) == transform(scale=7.0)


@both_transforms
@pytest.mark.parametrize(
    ("losses", "came"), [([0, 0], "0.0"), ([1, np.inf], "(inf|nan)"), ([1, np.nan], "nan")]
)
def test_losses_that_give_no_scale_are_refused_with_the_way_out(transform, losses, came):
    name = transform.__name__
    with pytest.raises(
        InputError, match=rf"`{name}\(quantile=0.9\)`.*is {came}.*by hand: `{name}\(scale=...\)`"
    ):
        transform().fitted(np.asarray(losses, float))
