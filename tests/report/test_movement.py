"""The latents that calibration moved, and their densities."""

import numpy as np
import pytest

import stakes
from stakes.predicting import SampledPosterior
from stakes.report import Report
from stakes.report.movement import centres, density_of, levels, moved_latents


def test_posterior_section_shows_what_moved_most_first(
    result: stakes.Calibration, report: Report
) -> None:
    moved = report.movement
    assert moved.total == 10
    assert len(moved.marginals) == 6
    assert len(moved.pairs) == 3
    change = [
        (abs(m["LCVI"].mean - m["VI"].mean) + abs(m["LCVI"].sd - m["VI"].sd)) / m["VI"].sd
        for m in (marginal.moments for marginal in moved.marginals)
    ]
    assert change[0] > 0.9 * max(change)
    for marginal in moved.marginals:
        width = marginal.grid[1] - marginal.grid[0]
        for density in marginal.density.values():
            assert 0.97 < density.sum() * width < 1.01


def test_posterior_section_shows_nuts_where_it_was_run(result: stakes.Calibration) -> None:
    draws = {
        name: np.random.default_rng(0).normal(size=(50, *latent.shape))
        for name, latent in result.approximation.latents.items()
    }
    found = moved_latents(result, SampledPosterior(draws))
    assert all(list(m.density) == ["VI", "LCVI", "NUTS"] for m in found.marginals)
    assert all("NUTS" in pair.correlation for pair in found.pairs)


def test_density_of_normal_draws_is_normal() -> None:
    draws = np.random.default_rng(1).normal(size=(4000, 1))
    grid = centres(-3.0, 3.0, 120)
    true = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    assert np.abs(density_of(draws, [grid]) - true).max() < 0.03


def test_density_does_not_dip_at_a_bound() -> None:
    draws = np.random.default_rng(1).exponential(size=(4000, 2))
    grid = centres(0.0, 6.0, 120)
    alone = density_of(draws[:, :1], [grid])
    assert alone[0] == pytest.approx(1.0, abs=0.15)
    assert alone[0] >= alone[10:].max()
    axis = centres(0.0, 6.0, 40)
    together = density_of(draws, [axis, axis])
    assert together[0, 0] >= together[3:, 3:].max()


def test_density_of_a_heavy_tail_keeps_its_peak() -> None:
    draws = np.random.default_rng(0).lognormal(sigma=1.5, size=(4000, 1))
    grid = centres(*np.quantile(draws, (0.003, 0.997)), 120)
    mode = grid[density_of(draws, [grid]).argmax()]
    assert mode < np.median(draws)


@pytest.mark.parametrize("values", [[2.0] * 4000, [2.0], [1.9, 2.1], 2 + 1e-9 * np.arange(50)])
def test_draws_that_hardly_vary_have_a_density(values: list[float]) -> None:
    grid = centres(1.5, 2.5, 120)
    density = density_of(np.array(values)[:, None], [grid])
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.03)
    assert (density * grid).sum() / density.sum() == pytest.approx(2.0, abs=0.01)


def test_contour_levels_enclose_their_share() -> None:
    draws = np.random.default_rng(1).normal(size=(4000, 2))
    axis = centres(-4.0, 4.0, 40)
    density = density_of(draws, [axis, axis])
    half, most = levels(density, (0.5, 0.9))
    assert density[density >= half].sum() / density.sum() == pytest.approx(0.5, abs=0.03)
    assert density[density >= most].sum() / density.sum() == pytest.approx(0.9, abs=0.03)
