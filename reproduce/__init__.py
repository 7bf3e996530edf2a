"""The experiments of the paper, one module each; `python -m reproduce NAME` runs them."""

from collections.abc import Callable

from reproduce import (
    algorithms,
    corrections,
    eight_schools,
    linearization,
    losses,
    quantiles,
)
from reproduce.results import PaperTable, Settings, summary

EXPERIMENTS: dict[str, Callable[[Settings], PaperTable]] = {
    "eight-schools": eight_schools.run,
    "losses": losses.run,
    "algorithms": algorithms.run,
    "quantiles": quantiles.run,
    "linearization": linearization.run,
    "corrections": corrections.run,
}

__all__ = ["EXPERIMENTS", "PaperTable", "Settings", "summary"]
