"""What is known of each outcome distribution: importing this answers the questions of `stats`."""

from stakes.expectation.families import (
    bounded,
    derived,
    finite,
    mixtures,
    negative_binomial,
    normal,
    poisson,
    real_line,
)

__all__ = [
    "bounded",
    "derived",
    "finite",
    "mixtures",
    "negative_binomial",
    "normal",
    "poisson",
    "real_line",
]
