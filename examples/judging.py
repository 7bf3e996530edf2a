"""What decisions have saved against others, on the same cases; and what examples share."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes import checks
from stakes._types import Key
from stakes.study import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def saved(costs: np.ndarray, others: np.ndarray) -> tuple[float, float, float]:
    """What each case costs less than under other decisions: the mean, and its 95 % interval.

    Examples:
        >>> import numpy as np
        >>> from examples.judging import saved
        >>> saved(np.array([1.0, 2.0, 1.0]), np.array([2.0, 3.0, 2.0]))
        (1.0, 1.0, 1.0)
    """
    first, second = (checks.array("`saved(costs, others)`", each) for each in (costs, others))
    less = second.astype(float) - first
    mean, error = float(less.mean()), float(less.std(ddof=1) / np.sqrt(len(less)))
    return mean, mean - 1.96 * error, mean + 1.96 * error


def table(costs: np.ndarray, others: Mapping[str, np.ndarray], unit: str) -> str:
    """The cost of decisions beside that of others, and what they have saved against each."""
    lines = [f"  {'as decided':<22} {costs.mean():8.2f} {unit}"]
    for name, each in others.items():
        mean, low, high = saved(costs, each)
        lines.append(
            f"  {name:<22} {each.mean():8.2f} {unit}; saved {mean:.2f} ({low:.2f} to {high:.2f})"
        )
    return "\n".join(lines)


def told(solve: Callable[[Key], Any], said: Callable[[Any], str]) -> None:
    """Solve an example, and print what it says and how long it took."""
    import jax

    started = time.perf_counter()
    print(said(solve(jax.random.key(0))))
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


def new_axes() -> "Axes":
    """For a picture; Matplotlib comes with the extra `plot`."""
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def ending(result: Calibration) -> str:
    """How the two fits ended, in one line."""
    fits = [f"{name} {fit.reason} after {fit.steps:,} steps" for name, fit in result.fits.items()]
    return f"Fits: {', '.join(fits)}."
