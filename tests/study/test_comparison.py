"""Comparisons: reductions and their table; and net benefit, as the textbook has it."""

import numpy as np
import pytest

import stakes
from stakes.study import net_benefit

COSTS = {
    "plain": np.array([3.0, 1, 4, 1, 5, 9, 2, 6]),
    "better": np.array([2.0, 1, 3, 1, 4, 7, 2, 5]),
    "worse": np.array([6.0, 2, 7, 3, 9, 19, 4, 13]),
}


def compared(widening: float | None = None) -> stakes.Comparison:
    return stakes.Comparison(
        COSTS, gain=False, setting="", held_out=True, base="plain", widening=widening
    )


def test_the_table_has_the_risk_and_reduction_of_each_method() -> None:
    comparison = compared()
    table = comparison.table
    assert list(table.index) == list(COSTS)
    for name, costs in COSTS.items():
        assert table.loc[name, "risk"] == pytest.approx(costs.mean())
        assert table.loc[name, "better_by"] == pytest.approx(1 - costs.mean() / 3.875)
        assert table.loc[name, "low"] <= table.loc[name, "better_by"] <= table.loc[name, "high"]
    assert (table.loc["plain", ["better_by", "low", "high"]] == 0).all()
    found = comparison.reductions["better"]
    assert table.loc["better", "low"] == found.low
    assert table.loc["better", "high"] == found.high


def test_intervals_of_folds_are_wider_by_the_factor_and_the_same_from_both_sides() -> None:
    alone, folds = compared().reductions["better"], compared(1.5).reductions["better"]
    assert folds.better_by == alone.better_by
    assert folds.low - folds.better_by == pytest.approx(1.5 * (alone.low - alone.better_by))
    assert folds.high - folds.better_by == pytest.approx(1.5 * (alone.high - alone.better_by))
    there = compared(1.5).against("worse", "plain")
    back = compared(1.5).against("plain", "worse")
    assert there.low == pytest.approx(1 - 1 / (1 - back.high))
    assert there.high == pytest.approx(1 - 1 / (1 - back.low))


def test_a_comparison_needs_the_costs_of_its_base() -> None:
    with pytest.raises(stakes.InputError, match=r"`Comparison\(costs=...\)`.*one is 'other'"):
        stakes.Comparison(COSTS, gain=False, setting="", held_out=True, base="other")


def test_net_benefit_is_that_of_the_textbook():
    bought = np.array([1, 0, 0, 1, 0])
    chance = np.array([0.9, 0.6, 0.1, 0.2, 0.4])
    for threshold in (0.15, 0.35, 0.5, 0.7):
        weight = threshold / (1 - threshold)
        found = sum(
            b - weight * (1 - b) for b, c in zip(bought, chance, strict=True) if c >= threshold
        )
        assert net_benefit(bought, chance, threshold) == pytest.approx(found / 5, abs=1e-10)
