"""The days of the newsvendor, and its problem."""

import numpy as np
import pytest
from numpyro import handlers

from stakes import InputError
from stakes.demos import newsvendor


def test_newsvendor_is_split_by_time_and_standardised_on_the_days_of_the_fit():
    fitted, later = newsvendor.data(), newsvendor.held_out()
    assert (len(fitted["sold"]), len(later["sold"])) == (600, 160)
    np.testing.assert_allclose(fitted["features"].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(fitted["features"].std(axis=0), 1)
    trend = newsvendor.labels()["feature"].index("trend")
    assert later["features"][:, trend].min() > fitted["features"][:, trend].max()


def test_newsvendor_learns_how_much_demand_varies():
    sites = handlers.trace(handlers.seed(newsvendor.model, 0)).get_trace(**newsvendor.data())
    latents = [name for name, site in sites.items() if site["type"] == "sample"]
    assert "concentration" in latents
    assert newsvendor.held_out().keys() == newsvendor.data().keys()


def test_newsvendor_takes_its_quantile_from_the_cost_ratio():
    assert newsvendor.problem(underage=9.0, overage=1.0).loss.level == 0.9


def test_newsvendor_names_the_dishes_there_are():
    with pytest.raises(InputError, match=r"must be one of 'calamari'.*got 'pizza'"):
        newsvendor.data("pizza")
