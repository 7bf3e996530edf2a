"""All options of `calibrate`, as one value."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from stakes import checks
from stakes.fitting import FitSettings, Method
from stakes.protocols import Estimator, Expectation, Transform

if TYPE_CHECKING:
    import optax


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """How to calibrate; the docstring of `calibrate` explains each option.

    Examples:
        >>> import stakes
        >>> stakes.Options(method=stakes.EM(draws=50), steps=0)
        Traceback (most recent call last):
        ...
        stakes.errors.InputError: `steps=` must be a whole number above zero; got 0.
    """

    transform: Transform | None = None
    method: Method | None = None
    expectation: Expectation | None = None
    estimator: Estimator | None = None
    steps: int = 30_000
    draws: int | None = None
    independent: bool = False
    optimizer: "optax.GradientTransformation | None" = None
    all_steps: bool = False
    warm_start: bool = True

    def __post_init__(self) -> None:
        for name, contract, known in (
            ("transform", Transform, "`Linearized(...)` or `Exponential(...)`"),
            ("method", Method, "`Joint()` or `EM()`"),
            ("expectation", Expectation, "one such as `Quadrature()`"),
            ("estimator", Estimator, "`Nested()`, `Jensen()` or `Taylor()`"),
        ):
            value = getattr(self, name)
            if value is not None:
                checks.choice(f"`{name}=`", value, contract, known)
        settings = self.fit_settings(draws=1, progress=False)  # reports what does not fit
        object.__setattr__(self, "warm_start", checks.flag("`warm_start=`", self.warm_start))
        for name in (
            "steps",
            "independent",
            "all_steps",
            *(() if self.draws is None else ("draws",)),
        ):
            object.__setattr__(self, name, getattr(settings, name))

    def fit_settings(self, *, draws: int, progress: bool) -> FitSettings:
        """Settings of both fits, with this number of draws where none was given."""
        return FitSettings(
            steps=self.steps,
            draws=draws if self.draws is None else self.draws,
            independent=self.independent,
            optimizer=self.optimizer,
            all_steps=self.all_steps,
            progress=progress,
        )
