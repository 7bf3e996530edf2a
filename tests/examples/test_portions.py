"""Limits of the kitchen, and costs."""

import numpy as np

from examples import portions


def test_the_kitchen_has_less_room_on_mondays():
    days = portions.data()
    monday = days["weekday"] == 0
    assert set(days["room"][monday]) == {portions.ON_MONDAYS}
    assert set(days["room"][~monday]) == {portions.ROOM}
    short = portions.costs(np.array([10.0, 12.0]), np.array([12, 10]))
    np.testing.assert_array_equal(short, [6, 2])
