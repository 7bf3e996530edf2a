"""The examples run from end to end."""

import jax
import numpy as np
import pytest

from examples import bank, portions, pricing, promises, radon, remediation, retail
from stakes.demos import newsvendor

EXAMPLES = {"newsvendor": newsvendor, "radon": radon, "retail": retail}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES]
)
def solved(request):
    example = EXAMPLES[request.param]
    return example, example.solve(jax.random.key(0), steps=100)


def test_decisions_are_finite_and_labelled(solved):
    example, result = solved
    labels = example.labels()
    for decisions in (result.decisions, result.vi_decisions):
        assert np.isfinite(decisions.values).all()
        for dim in decisions.dims:
            assert list(decisions[dim].values) == labels[dim]


def test_held_out_data_compare_without_a_warning(solved):
    example, result = solved
    comparison = result.compare(example.held_out(), known=example.KNOWN)
    assert comparison.held_out
    assert np.isfinite(comparison.costs["LCVI"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("example", [remediation, portions, pricing, promises, bank])
def test_an_example_says_the_same_each_time(example):
    solve = getattr(example, "solve_both", example.solve)
    first, second = (example.summary(solve(jax.random.key(0), progress=False)) for _ in range(2))
    assert first == second
    assert "converged" in first
