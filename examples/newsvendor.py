"""Newsvendor: how many portions of a dish to prepare, when too few cost more than too many.

The problem is that of `stakes.demos.newsvendor`. Run `python -m examples.newsvendor`.
"""

from examples.judging import main
from stakes.demos.newsvendor import DISH, KNOWN, WEEKDAYS, held_out, solve
from stakes.study import Calibration


def summary(result: Calibration) -> str:
    """What decisions cost on the days held out, and portions by weekday."""
    later = held_out()
    orders = result.decide(later, known=KNOWN).values
    lines = [
        str(result.compare(later, known=KNOWN)),
        "",
        f"Portions of {DISH} to prepare, and portions sold, on average over the days held out:",
    ]
    for number, name in enumerate(WEEKDAYS):
        days = later["weekday"] == number
        lines.append(f"  {name} {orders[days].mean():6.1f} {later['sold'][days].mean():6.1f}")
    return "\n".join([*lines, "", repr(result)])


if __name__ == "__main__":
    main(solve, summary)
