"""Folds: random, forward in time, and given; what their fits may see, and what judges them."""

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import stakes
from stakes.port import Instances
from stakes.study import Study, Work
from stakes.study.folds import split

KEY = jax.random.key(0)


def folds_of(folds: Any, counted: np.ndarray, groups: np.ndarray | None = None) -> Any:
    return split(folds, groups, counted, Instances(counted.shape, ("row",)), KEY)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_random_folds_judge_every_outcome_once_and_never_see_it(count: int) -> None:
    counted = np.random.default_rng(0).uniform(size=50) < 0.8
    splits = folds_of(count, counted)
    assert (splits.judged.sum(axis=0) == counted).all()
    assert not (splits.judged & splits.fitted).any()
    assert (splits.fitted | splits.judged == counted).all()
    sizes = splits.judged.sum(axis=1)
    assert sizes.max() - sizes.min() <= 1
    assert [mask.seen.shape for mask in splits.masks] == [(50,)] * count


def test_forward_folds_see_the_past_alone() -> None:
    counted = np.ones(40, bool)
    counted[5] = False
    splits = folds_of(stakes.Forward(blocks=4, start=0.5), counted)
    for fitted, judged in zip(splits.fitted, splits.judged, strict=True):
        assert np.flatnonzero(fitted).max() < np.flatnonzero(judged).min()
    assert splits.ever_judged.sum() == 19
    np.testing.assert_array_equal(splits.fitted[1], splits.fitted[0] | splits.judged[0])


def test_forward_folds_do_not_divide_what_has_the_same_time() -> None:
    """Five shops a day: no fit sees some of them on the day that it is judged by."""
    day = np.arange(43) // 5
    splits = folds_of(stakes.Forward(blocks=3, start=0.5, together=day), np.ones(43, bool))
    for fitted, judged in zip(splits.fitted, splits.judged, strict=True):
        assert day[fitted].max() < day[judged].min()
    assert splits.judged.sum(axis=1).tolist() == [10, 5, 8]


def test_rows_that_are_not_in_order_of_time_are_refused() -> None:
    def rated(x: Any, y: Any = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        with numpyro.plate("day", len(x)):
            numpyro.sample("y", dist.Normal(level * x, 1), obs=y)

    days = pd.date_range("2024-01-01", periods=20)
    frame = pd.DataFrame({"x": np.arange(20.0) / 20, "y": np.arange(20) % 3.0}, index=days)
    problem = stakes.Problem(rated, outcome="y", loss=stakes.Squared())
    for wrong in (frame.iloc[::-1], pd.concat([frame, frame])):
        with pytest.raises(stakes.InputError, match=r"rows in order of time.* comes after"):
            stakes.choose(KEY, problem, wrong, folds=stakes.Forward(blocks=2))
    forward = stakes.Forward(blocks=2, together=np.arange(20) // 2)
    work, options = Work(progress=False), stakes.Options(steps=300)
    study = Study(KEY, problem, frame, options, folds=forward, work=work)
    assert study.dependence.size == 10
    assert study.dependence.words == "times in order"


def test_forward_folds_are_told_apart_by_what_has_the_same_time() -> None:
    day = np.arange(43) // 5
    first = stakes.Forward(together=day)
    assert first == stakes.Forward(together=day.copy())
    assert hash(first) == hash(stakes.Forward(together=day.copy()))
    assert first != stakes.Forward()
    assert first != stakes.Forward(together=day // 2)


def test_intervals_are_wider_because_fits_share_data() -> None:
    assert folds_of(5, np.ones(50, bool)).widening == pytest.approx(1.5)
