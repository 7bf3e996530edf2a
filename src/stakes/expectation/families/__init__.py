"""What is known of each outcome distribution: importing this answers the questions of `stats`."""

from stakes.expectation.families import (
    bounded,
    counts,
    known,
    labels,
    mixtures,
    normal,
    poisson,
    positive,
    real_line,
    transformed,
)

__all__ = [
    "bounded",
    "counts",
    "known",
    "labels",
    "mixtures",
    "normal",
    "poisson",
    "positive",
    "real_line",
    "transformed",
]
