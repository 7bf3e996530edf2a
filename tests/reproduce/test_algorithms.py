"""When an algorithm has reached a risk for good."""

from reproduce.algorithms import seconds_until


def test_a_risk_that_is_reached_and_left_again_is_not_reached_for_good() -> None:
    risks = [[1.0, 0.3], [2.0, 0.5], [3.0, 0.4], [4.0, 0.3]]
    assert seconds_until(risks, 0.4) == 3.0
    assert seconds_until(risks, 0.2) is None
    assert seconds_until(risks[:2], 0.4) is None
    assert seconds_until(risks, 0.5) == 1.0
