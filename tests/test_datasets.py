"""Shapes and contents of the shipped tables."""

from pathlib import Path

import numpy as np
import pytest

from stakes import datasets

SHIPPED = {
    "retail": (1000, 100),
    "newsvendor": (765, 18),
    "radon": (919, 4),
    "bank_marketing": (4000, 17),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_table_has_its_shape_and_no_gaps(name):
    table = getattr(datasets, name)()
    assert table.shape == SHIPPED[name]
    assert not table.isna().any(axis=None)


def test_a_third_of_retail_is_not_zero():
    counts = datasets.retail()
    assert (counts.to_numpy() > 0).mean() == pytest.approx(0.33, abs=0.005)
    assert (counts.to_numpy() >= 0).all()
    assert counts.index.is_unique
    assert counts.columns.is_unique


def test_newsvendor_has_every_day_once_and_sells_nothing_when_closed():
    days = datasets.newsvendor()
    assert set(np.diff(days.index) / np.timedelta64(1, "D")) == {1.0}
    closed = days.loc[days["is_closed"] == 1, list(datasets.DISHES)]
    assert len(closed) == 5
    assert (closed.to_numpy() == 0).all()


def test_radon_has_one_uranium_level_a_county():
    homes = datasets.radon()
    assert homes["county"].nunique() == 85
    assert (homes.groupby("county")["uranium"].nunique() == 1).all()
    assert set(homes["floor"]) == {0, 1}


def test_bank_marketing_has_yes_and_no_in_the_proportion_of_the_source():
    outcome = datasets.bank_marketing()["y"]
    assert set(outcome) == {"yes", "no"}
    # 11.70 % of all calls; a sample of 4,000 is within three standard errors of it.
    assert (outcome == "yes").mean() == pytest.approx(0.117, abs=0.015)


def test_last_fm_is_not_shipped():
    folder = Path(datasets.__file__).parent
    assert [file.name for file in folder.rglob("*") if "lastfm" in file.name.lower()] == []
