"""The best prices are known."""

import numpy as np

from examples import pricing


def test_the_best_prices_earn_the_most():
    region, best = np.arange(3), pricing.best_prices()
    earned = lambda price: (price - pricing.COST) * pricing.sales(region, price)  # noqa: E731
    for other in (0.99, 1.01):
        assert (earned(best) > earned(other * best)).all()
    assert set(pricing.data()) == {"region", "price", "sold"}
