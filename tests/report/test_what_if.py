"""What the page needs to decide again."""

import numpy as np
import pytest

import stakes
from stakes.report import Report
from stakes.report.what_if import LEVELS, quantile_what_if


def test_what_if_quantiles_surround_the_decision_of_the_fit(report: Report) -> None:
    found = report.what_if
    assert found is not None
    assert found.kind == "costs"
    assert [handle.value for handle in found.handles] == pytest.approx([0.2, 0.8])
    assert found.quantiles.shape == (8, len(LEVELS)) == (8, 41)
    width = found.quantiles[:, 30] - found.quantiles[:, 10]
    at_fit = np.array([np.interp(0.2, LEVELS, row) for row in found.quantiles])
    assert (np.abs(at_fit - report.decisions.calibrated) < 0.1 * width).all()


def test_losses_without_a_parameter_have_no_slider() -> None:
    assert quantile_what_if(stakes.Squared(), np.zeros((50, 3))) is None


def test_linex_slider_keeps_the_sign_of_c() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(50, 3)).astype(float)
    found = quantile_what_if(stakes.LinEx(-0.5), counts)
    assert found is not None
    assert [(handle.value, handle.span) for handle in found.handles] == [(-0.5, 3.0)]
    assert not found.whole_numbers  # the best decision about a count need not be one


def test_an_absolute_loss_has_two_costs_of_one() -> None:
    found = quantile_what_if(stakes.Absolute(), np.random.default_rng(0).normal(size=(50, 3)))
    assert found is not None
    assert (found.kind, [handle.value for handle in found.handles]) == ("costs", [1.0, 1.0])
    assert not found.whole_numbers


def test_many_instances_are_sampled_for_the_slider() -> None:
    found = quantile_what_if(stakes.Tilted(0.3), np.random.default_rng(0).normal(size=(50, 5000)))
    assert found is not None
    assert len(found.rows) == len(set(found.rows.tolist())) == 2000
    assert (np.diff(found.rows) > 0).all()
