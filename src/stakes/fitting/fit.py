"""Where a fit ended, and why.

A numerical failure or an interrupt is a reason to stop, and not an error: the last good state is
kept, and the reason says what it is worth.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import final

import numpy as np

from stakes import checks
from stakes._types import Params, PyTree
from stakes.errors import NumericalError
from stakes.fitting.stages import finite_mean


class Stop(StrEnum):
    """Why a fit ended.

    Examples:
            >>> import stakes
            >>> print(stakes.Stop.CONVERGED)
            converged
    """

    CONVERGED = "converged"
    STEP_LIMIT = "reached the step limit"
    INTERRUPTED = "interrupted"
    LEFT_OUT = "was left out"
    NUMERICAL_FAILURE = "stopped: no finite gradient in many steps in a row"


@final
@dataclass(frozen=True, eq=False)
class Fit:
    """Where a fit ended, how it got there, and why it stopped.

    Attributes:
        elbo: estimate at each step.
        utility: utility term at each step; zero throughout for plain VI.
        skipped: steps left out because their gradient was not finite.
        step_seconds: seconds a step took, without the first chunk, which has to be compiled.

    Examples:
            >>> import numpy as np, stakes
            >>> stakes.Fit(  # as `result.vi` and `result.calibrated` are
            ...     variables={"params": {}},
            ...     elbo=np.array([-3.0, -2.0]),
            ...     utility=np.zeros(2),
            ...     reason=stakes.Stop.CONVERGED,
            ...     skipped=0,
            ...     seconds=0.1,
            ... )
            Fit(converged after 2 steps, bound -2)
    """

    variables: PyTree
    elbo: np.ndarray
    utility: np.ndarray
    reason: Stop
    skipped: int
    seconds: float
    step_seconds: float = float("nan")

    def __post_init__(self) -> None:
        checks.fields(self, variables=Mapping, elbo=np.ndarray, utility=np.ndarray, reason=Stop)
        if not isinstance(self.variables.get("params"), Mapping):
            raise checks.refused("`Fit(variables=...)`", "a mapping with 'params'", self.variables)
        for name, trace in (("elbo", self.elbo), ("utility", self.utility)):
            if trace.ndim != 1 or not checks.holds_numbers(trace):
                raise checks.refused(f"`Fit({name}=...)`", "one number for each step", trace)
        if self.elbo.shape != self.utility.shape:
            rule = "a number for each step, as many as in `Fit(elbo=...)`"
            raise checks.refused("`Fit(utility=...)`", rule, self.utility)
        checks.whole("`Fit(skipped=...)`", self.skipped, least=0)
        checks.number("`Fit(seconds=...)`", self.seconds, least=0)

    @property
    def params(self) -> Params:
        """The variational parameters, unconstrained."""
        params: Params = self.variables["params"]
        return params

    @property
    def bound(self) -> np.ndarray:
        """Estimate of ELBO + utility term at each step: larger is better.

        Steps that were skipped have a value that is not finite.
        """
        bound: np.ndarray = self.elbo + self.utility
        return bound

    @property
    def end(self) -> float:
        """Mean bound over the last tenth of the steps."""
        return finite_mean(self.last_tenth(self.bound))

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.elbo)

    @property
    def converged(self) -> bool:
        """Whether the bound had stopped rising at the smallest step size, twice over."""
        return self.reason is Stop.CONVERGED

    def __repr__(self) -> str:
        end = f", bound {self.end:.4g}" if self.steps else ""
        skipped = f", {self.skipped} steps skipped" if self.skipped else ""
        return f"Fit({self.reason} after {self.steps} steps{end}{skipped})"

    def last_tenth(self, trace: np.ndarray) -> np.ndarray:
        """Return the last tenth of a trace of this fit: where it ended, with its noise."""
        return trace[-max(1, self.steps // 10) :]

    def check(self, name: str) -> None:
        """Refuse a fit, by its name, that never found a finite bound and gradient."""
        if self.reason is Stop.NUMERICAL_FAILURE and self.skipped >= self.steps:
            raise NumericalError(
                f"The {name} fit found no finite bound and gradient at all in {self.steps} steps. "
                f"Check the model's priors and the size of the data, give a smaller step "
                f"(`optimizer=optax.adam(1e-3)`) or, for counts, a larger "
                f"`Enumeration(points=...)`."
            )

    def check_whole(self, name: str) -> None:
        """Refuse a fit that was cut short, where the figures of a whole one are to be kept."""
        self.check(name)
        if self.reason is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if self.reason is Stop.NUMERICAL_FAILURE:
            raise NumericalError(f"The {name} fit {self.reason} (after {self.steps} steps).")
