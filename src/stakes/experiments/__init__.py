"""The experiments of the paper, one module each; `stakes reproduce NAME` runs them."""

from collections.abc import Callable

from stakes.experiments import algorithms, eight_schools, linearization, losses, quantiles
from stakes.experiments.study import Settings, Table, summary

EXPERIMENTS: dict[str, Callable[[Settings], Table]] = {
    "eight-schools": eight_schools.run,
    "losses": losses.run,
    "algorithms": algorithms.run,
    "quantiles": quantiles.run,
    "linearization": linearization.run,
}

__all__ = ["EXPERIMENTS", "Settings", "Table", "summary"]
