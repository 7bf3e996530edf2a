"""Net benefit, as the textbook has it."""

import numpy as np
import pytest

from stakes.study import net_benefit


def test_net_benefit_is_that_of_the_textbook():
    bought = np.array([1, 0, 0, 1, 0])
    chance = np.array([0.9, 0.6, 0.1, 0.2, 0.4])
    for threshold in (0.15, 0.35, 0.5, 0.7):
        weight = threshold / (1 - threshold)
        found = sum(
            b - weight * (1 - b) for b, c in zip(bought, chance, strict=True) if c >= threshold
        )
        assert net_benefit(bought, chance, threshold) == pytest.approx(found / 5, abs=1e-10)
