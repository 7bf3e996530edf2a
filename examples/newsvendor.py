"""Newsvendor: how many portions of a dish to prepare, when too few cost more than too many.

The problem is that of `stakes.demos.newsvendor`. Run `python -m examples.newsvendor`.
"""

import time

from stakes.demos.newsvendor import DISH, KNOWN, WEEKDAYS, held_out, solve


def main() -> None:
    import jax

    started = time.perf_counter()
    result = solve(jax.random.key(0))
    later = held_out()
    print(result.compare(later, known=KNOWN), end="\n\n")
    orders = result.decide(later, known=KNOWN).values
    print(f"Portions of {DISH} to prepare, and portions sold, on average over the days held out:")
    for number, name in enumerate(WEEKDAYS):
        chosen = later["weekday"] == number
        print(f"  {name} {orders[chosen].mean():6.1f} {later['sold'][chosen].mean():6.1f}")
    print(f"\n{result!r}")
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


if __name__ == "__main__":
    main()
