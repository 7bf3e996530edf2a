"""What decisions have saved against others, on the same cases; and what the examples share."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stakes._types import Key
from stakes.study import Calibration, Dependence, Independent, interval, relative
from stakes.wording import percent, percent_span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = TypeVar("Result")


def saving(costs: np.ndarray, others: np.ndarray, dependence: Dependence | None = None) -> str:
    """By what share decisions cost less than others, with a 95 % interval.

    Cases depend on each other as `dependence` says; by default they do not.

    Examples:
        >>> import numpy as np
        >>> from examples.judging import saving
        >>> saving(np.arange(1.0, 9.0), 2 * np.arange(1.0, 9.0))
        '50.0 % (50.0 to 50.0 %)'
        >>> saving(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
        '40.0 % (independent cases; 2 are too few)'
    """
    low, high, method = interval(others, costs, dependence or Independent())
    share = relative(float(others.mean() - costs.mean()), abs(float(others.mean())))
    span = method if np.isinf([low, high]).all() else percent_span(low, high)
    return f"{percent(share)} ({span})"


def table(
    costs: np.ndarray,
    others: Mapping[str, np.ndarray],
    unit: str,
    dependence: Dependence | None = None,
) -> str:
    """The cost of decisions beside that of others, and what they have saved against each."""
    lines = [f"  {'as decided':<22} {costs.mean():8.2f} {unit}"]
    for name, other in others.items():
        saved = saving(costs, other, dependence)
        lines.append(f"  {name:<22} {other.mean():8.2f} {unit}; saved {saved}")
    return "\n".join(lines)


def main(solve: Callable[[Key], Result], summary: Callable[[Result], str]) -> None:
    """Solve an example, and print its summary and how long it took."""
    import jax

    started = time.perf_counter()
    print(summary(solve(jax.random.key(0))))
    print(f"\n{time.perf_counter() - started:.1f} s of wall clock, compilation included.")


def new_axes() -> "Axes":
    """For a picture; Matplotlib comes with the extra `plot`."""
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def ending(result: Calibration) -> str:
    """How the two fits ended, in one line."""
    fits = [f"{name} {fit.reason} after {fit.steps:,} steps" for name, fit in result.fits.items()]
    return f"Fits: {', '.join(fits)}."
