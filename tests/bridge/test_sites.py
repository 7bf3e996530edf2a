"""Masks, event dims, densities and dims of sites."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro_port import KEY, approximate, draw, level_guide
from scipy import stats

from stakes.bridge.sites import log_prob_of
from stakes.port import Instances

OBSERVED = np.array([[True, False, True], [False, True, True]])


def _masked(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    plates = numpyro.plate("row", 2, dim=-2), numpyro.plate("column", 3, dim=-1)
    with plates[0], plates[1], handlers.mask(mask=jnp.asarray(OBSERVED)):
        numpyro.sample("y", dist.Normal(level + x, 1), obs=y)


def _masked_distribution(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", 2, dim=-2), numpyro.plate("column", 3, dim=-1):
        numpyro.sample("y", dist.Normal(level + x, 1).mask(OBSERVED), obs=y)


def _masked_events(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", 2):
        numpyro.sample("y", dist.Normal(level + x, 1).mask(OBSERVED).to_event(1), obs=y)


@pytest.mark.parametrize("model", [_masked, _masked_distribution, _masked_events])
def test_a_mask_takes_entries_out_of_likelihood_and_utility_alike(
    model: Callable[..., None],
) -> None:
    x = np.arange(6.0).reshape(2, 3)
    draws = []
    for hidden in (0.0, 1e6):
        data = {"x": x, "y": np.where(OBSERVED, x, hidden)}
        approximation = approximate(model, data, level_guide)
        draws.append(draw(approximation, approximation.init(KEY)))
    np.testing.assert_allclose(draws[0].log_ratio, draws[1].log_ratio)
    np.testing.assert_array_equal(draws[0].weight, OBSERVED.astype(float))


def test_a_mask_of_rows_covers_all_of_their_events() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", 3), handlers.mask(mask=jnp.array([True, False, True])):
            numpyro.sample("y", dist.Normal(level + x, 1).to_event(1), obs=y)

    data = {"x": np.zeros((3, 3)), "y": np.zeros((3, 3))}
    approximation = approximate(model, data, level_guide)
    weight = draw(approximation, approximation.init(KEY)).weight
    np.testing.assert_array_equal(weight, np.repeat([[1.0], [0.0], [1.0]], 3, axis=1))


def test_a_scale_of_rows_covers_all_of_their_events() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", 3), handlers.scale(scale=jnp.array([1.0, 2.0, 3.0])):
            numpyro.sample("y", dist.Normal(level + x, 1).to_event(1), obs=y)

    data = {"x": np.zeros((3, 3)), "y": np.zeros((3, 3))}
    approximation = approximate(model, data, level_guide)
    weight = draw(approximation, approximation.init(KEY)).weight
    np.testing.assert_array_equal(weight, np.repeat([[1.0], [2.0], [3.0]], 3, axis=1))


@pytest.mark.parametrize("gate", [None, 0.25], ids=["counts", "more zeros"])
def test_the_density_of_overdispersed_counts_has_their_masks_and_scales(gate: float | None) -> None:
    """It is not NumPyro's, which takes longer."""
    mask, scale = np.array([[1, 1], [0, 1], [1, 1]], bool), np.array([[1.0], [2.0], [3.0]])
    mean, spread = np.array([2.0, 50.0]), 1.5

    def model(y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        counts: Any = dist.NegativeBinomial2(mean + 0 * level, spread)
        if gate is not None:
            counts = dist.ZeroInflatedDistribution(counts, gate=gate)
        with numpyro.plate("row", 3), handlers.scale(scale=jnp.asarray(scale[:, 0])):
            numpyro.sample("y", counts.expand([3, 2]).mask(mask).to_event(1), obs=y)

    def found(y: np.ndarray) -> float:
        approximation = approximate(model, {"y": y}, level_guide)
        return float(draw(approximation, approximation.init(KEY)).log_ratio)

    def expected(y: np.ndarray) -> float:
        masses = stats.nbinom(spread, spread / (spread + mean)).pmf(y)
        if gate is not None:
            masses = gate * (y == 0) + (1 - gate) * masses
        return float((scale * np.where(mask, np.log(masses), 0.0)).sum())

    y, other = np.array([[0.0, 3], [40, 0], [7, 900]]), np.array([[1.0, 0], [0, 60], [0, 2]])
    assert found(y) - found(other) == pytest.approx(expected(y) - expected(other), rel=1e-5)


def log_prob_and_slope(counts: Callable[[Any], Any], value: Any) -> tuple[float, float]:
    """Of a site with this distribution of a mean; at a mean of two."""

    def at(mean: Any) -> Any:
        site = {"fn": counts(mean), "value": value, "scale": None, "intermediates": []}
        return log_prob_of(site)

    value_and_slope = jax.value_and_grad(at)(2.0)
    return float(value_and_slope[0]), float(value_and_slope[1])


def test_what_a_mask_hides_among_overdispersed_counts_may_be_anything() -> None:
    mask = np.array([True, False, True])

    def masked(mean: Any) -> Any:
        return dist.NegativeBinomial2(mean, 1.5).mask(mask)

    alike = [log_prob_and_slope(masked, jnp.array([1.0, hidden, 3.0])) for hidden in (np.nan, 5.0)]
    assert alike[0] == alike[1]
    assert np.isfinite(alike[0]).all()


@pytest.mark.parametrize("value", [-1.0, 2.5])
def test_no_count_has_no_chance(value: float) -> None:
    found, _ = log_prob_and_slope(lambda mean: dist.NegativeBinomial2(mean, 1.5), jnp.array(value))
    assert found == -np.inf


def test_overdispersed_counts_with_next_to_no_overdispersion_are_poisson() -> None:
    """NumPyro's formula is off by thirty."""
    counts = jnp.array([0.0, 3.0, 40.0])
    near = log_prob_and_slope(lambda mean: dist.NegativeBinomial2(mean, 1e10), counts)
    limit = log_prob_and_slope(dist.Poisson, counts)
    np.testing.assert_allclose(near, limit, rtol=1e-4)


def test_zeros_that_are_nearly_sure_leave_a_finite_density() -> None:
    def inflated(logits: Any) -> Any:
        counts = dist.NegativeBinomial2(2.0, 1.5)
        return dist.ZeroInflatedDistribution(counts, gate_logits=10 * logits)

    found, slope = log_prob_and_slope(inflated, jnp.array([0.0, 0.0, 5.0]))
    assert found == pytest.approx(-20 + stats.nbinom(1.5, 1.5 / 3.5).logpmf(5), rel=1e-4)
    assert slope == pytest.approx(-10, rel=1e-4)


def test_outcomes_under_to_event_have_a_decision_each() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(level + x, 1).to_event(1), obs=y)

    x = np.arange(6.0).reshape(2, 3)
    approximation = approximate(model, {"x": x, "y": x}, level_guide)
    assert approximation.instances == Instances((2, 3), ("row", "y_dim_1"))
    drawn = draw(approximation, approximation.init(KEY))
    assert drawn.weight.shape == (2, 3)
    np.testing.assert_allclose(jnp.diff(drawn.outcome.mean, axis=-1), 1.0, rtol=1e-5)


def test_dims_and_shape_come_from_the_plates() -> None:
    """Whatever the order in which the plates were opened."""

    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("column", 3, dim=-1), numpyro.plate("row", 2, dim=-2):
            numpyro.sample("y", dist.Normal(level, x), obs=y)

    data = {"x": 1.0, "y": np.zeros((2, 3))}
    assert approximate(model, data, level_guide).instances == Instances((2, 3), ("row", "column"))


def test_axes_without_a_plate_are_named_after_the_outcome() -> None:
    def model(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("column", 3):
            numpyro.sample("y", dist.Normal(level + x, 1), obs=y)

    data = {"x": np.zeros((2, 3)), "y": np.zeros((2, 3))}
    assert approximate(model, data, level_guide).instances == Instances(
        (2, 3), ("y_dim_0", "column")
    )


def test_a_single_outcome_has_no_dims() -> None:
    def model(y: Any = None) -> None:
        numpyro.sample("y", dist.Normal(numpyro.sample("level", dist.Normal(0, 1)), 1), obs=y)

    assert approximate(model, {"y": 1.5}, level_guide).instances == Instances((), ())
