"""When an algorithm has reached a risk for good."""

from reproduce.algorithms import settled


def test_a_risk_that_is_reached_and_left_again_is_not_reached_for_good() -> None:
    course = [[1.0, 0.3], [2.0, 0.5], [3.0, 0.4], [4.0, 0.3]]
    assert settled(course, 0.4) == 3.0
    assert settled(course, 0.2) is None
    assert settled(course[:2], 0.4) is None
    assert settled(course, 0.5) == 1.0
