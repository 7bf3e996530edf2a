"""Which entries are held out."""

import numpy as np
import pytest

from examples import retail


def test_retail_holds_out_the_entries_that_the_fit_does_not_see():
    fitted, others = retail.data(), retail.held_out()
    assert (fitted["observed"] ^ others["observed"]).all()
    assert fitted["observed"].mean() == pytest.approx(0.5, abs=0.01)
    np.testing.assert_array_equal(fitted["observed"], retail.data()["observed"])
    assert (retail.data(seed=1)["observed"] != fitted["observed"]).any()
