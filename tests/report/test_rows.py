"""The first screen of the report: what to decide, and whether to believe it."""

from dataclasses import replace

import numpy as np
import pytest

import stakes
from stakes.report import Rows
from stakes.report.rows import answer, quality


def test_expected_costs_are_means_over_what_is_predicted(result: stakes.Calibration) -> None:
    rows = Rows("fit", result.on_fit)
    short = rows.draws - rows.decisions
    by_hand = np.where(short > 0, 0.2 * short, -0.8 * short).mean(axis=0)
    np.testing.assert_allclose(rows.costs, by_hand, rtol=1e-4)
    assert (rows.expected(rows.decisions + 5) > rows.costs).all()


def test_decisions_of_a_way_take_the_place_of_the_calibrated_ones(
    result: stakes.Calibration,
) -> None:
    decided, drawn = np.arange(8.0), np.tile(np.arange(8.0), (10, 1)) + 1
    rows = Rows("new", result.on_fit, decided=decided, drawn=drawn, where="a.csv")
    np.testing.assert_allclose(rows.costs, 0.2, rtol=1e-6)  # each is one short
    rows = replace(rows, others={"one decision for all": np.full(8, 4.0)})
    found = answer(rows, gain=False, unit="€")
    assert found.cost == pytest.approx(8 * 0.2)
    assert found.total == 28.0
    assert found.sentence == "effect: 28 in all, for 8 rows of a.csv."
    short = np.arange(8.0) + 1 - 4
    same = np.where(short > 0, 0.2 * short, -0.8 * short).sum()
    assert dict(found.others)["one decision for all"] == pytest.approx(same)


def test_the_latest_rows_stand_for_the_present_where_nobody_asks(
    result: stakes.Calibration,
) -> None:
    many = result.assess({"sigma": np.full(40, 10.0)}, new="school")
    found = answer(Rows("held out", many), gain=False, unit=None)
    assert (found.count, found.every, found.rows) == (7, 40, tuple(range(33, 40)))
    assert "the latest 7 of 40 rows held out" in found.sentence
    asked = answer(Rows("new", many, where="t.csv"), gain=False, unit=None)
    assert (asked.count, asked.rows) == (40, tuple(range(7)))


def test_what_came_is_compared_with_what_was_expected(result: stakes.Calibration) -> None:
    rows = Rows("fit", result.on_fit)
    found = quality(rows, None, unseen=False, gain=False, unit=None)
    assert found is not None
    assert found.realised == pytest.approx(result.compare().risk["LCVI"], rel=1e-5)
    assert found.expected == pytest.approx(rows.costs.mean())
    wide, half = found.coverage
    inside = (rows.ranges[:, 0] <= rows.seen) & (rows.seen <= rows.ranges[:, 3])
    assert wide[:2] == (0.9, inside.mean())
    assert (wide[2], half[2]) == pytest.approx((0.9, 0.5), abs=0.01)
