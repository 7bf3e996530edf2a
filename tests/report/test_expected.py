"""What each price would cost, in the report: the model's own expectation, in NumPy."""

import jax
import numpy as np
import pytest

from examples import pricing
from stakes import report
from stakes.report import Rows
from stakes.report.expected import curve

FITTED = {"steps": 300, "draws": 4, "progress": False}


def profits(result, price, region):
    """Of a week, over draws of the posterior."""
    drawn = result.posterior(result.vi, draws=4000)
    level, elasticity = (drawn[name].values[0][:, region] for name in ("level", "elasticity"))
    rate = np.exp(level - elasticity * np.log(price / pricing.SET))
    return (price - pricing.COST) * rate


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per", ["region", "all"])
def test_a_curve_is_what_the_posterior_expects(per):
    result = pricing.solve(jax.random.key(0), per, **FITTED)
    found = curve(result, Rows("fit", result.on_fit))
    assert found.made == (pricing.data()["price"].min(), pricing.data()["price"].max())
    assert [line.group for line in found.lines] == (
        ["region 0", "region 1", "region 2"] if per == "region" else [""]
    )
    for number, line in enumerate(found.lines):
        regions = [number] if per == "region" else [0, 1, 2]
        for at in (0, 10, 20, 32):
            earned = np.mean([profits(result, found.decisions[at], r) for r in regions], axis=0)
            assert line.mean[at] == pytest.approx(1000 - earned.mean(), abs=0.05 * earned.mean())
            low, high = np.quantile(1000 - earned, [0.05, 0.95])
            assert line.low[at] == pytest.approx(low, abs=0.2 * (high - low) + 0.02)
            assert line.high[at] == pytest.approx(high, abs=0.2 * (high - low) + 0.02)
        here = result.vi_decisions.values[pricing.data()["region"] == regions[0]][0]
        assert line.decision == pytest.approx(here, rel=1e-5)
        assert line.expected[0] <= line.mean.min() + 0.05
    page = report.render(report.summarise(result, title="Prices"))
    assert "What if the price were different?" in page
