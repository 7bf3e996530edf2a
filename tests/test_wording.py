"""Numbers in words."""

import math

import numpy as np
import pytest

from stakes.wording import count, percent, percent_span


@pytest.mark.parametrize(
    ("share", "decimals", "words"),
    [
        (0.1234, 1, "12.3 %"),
        (0.1234, 0, "12 %"),
        (-0.01234, 2, "-1.23 %"),
        (-0.0001, 1, "0.0 %"),
        (np.float32(0.5), 0, "50 %"),
        (math.nan, 1, "?"),
        (None, 1, "?"),
    ],
)
def test_a_share_is_written_in_per_cent(share, decimals, words):
    assert percent(share, decimals, unknown="?") == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.01, 0.056, "-1.0 % to 5.6 %"),
        (-math.inf, 0.056, "5.6 % or less"),
        (0.01, math.inf, "1.0 % or more"),
        (None, 0.056, "?"),
        (0.01, math.nan, "?"),
    ],
)
def test_an_end_that_is_infinite_is_left_open(low, high, words):
    assert percent_span(low, high, unknown="?") == words


def test_one_is_singular():
    assert (count(1, "row"), count(1200, "row"), count(0, "class", "classes")) == (
        "1 row",
        "1,200 rows",
        "0 classes",
    )
