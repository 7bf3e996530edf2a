"""All that `calibrate` can be told, as one value."""

from dataclasses import dataclass
from typing import Any, final

import optax

from stakes.errors import InputError
from stakes.optimise import FitSettings, Joint, Method
from stakes.protocols import Estimator, Expectation, Transform


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """How to calibrate; `calibrate` says what each of them means.

    >>> import stakes
    >>> stakes.Options(method=stakes.EM(draws=50), steps=0)
    Traceback (most recent call last):
    ...
    stakes.errors.InputError: `steps=` must be a whole number above zero; got 0.
    """

    transform: Transform | None = None
    method: Method = Joint()  # noqa: RUF009 (a frozen value)
    expectation: Expectation | None = None
    estimator: Estimator | None = None
    steps: int = 30_000
    draws: int | None = None
    optimizer: optax.GradientTransformation | None = None
    all_steps: bool = False
    warm_start: bool = True

    def __post_init__(self) -> None:
        for name, contract, known in (
            ("transform", Transform, "`Linearized(...)` or `Exponential(...)`"),
            ("method", Method, "`Joint()` or `EM()`"),
            ("expectation", Expectation, "one such as `Quadrature()`"),
            ("estimator", Estimator, "`Nested()`, `Jensen()` or `Taylor()`"),
        ):
            _check(name, getattr(self, name), contract, known)
        self.fit_settings(draws=1, progress=False)  # says what does not fit

    def fit_settings(self, *, draws: int, progress: bool) -> FitSettings:
        """For both fits; with this number of draws where none was given."""
        return FitSettings(
            steps=self.steps,
            draws=draws if self.draws is None else self.draws,
            optimizer=self.optimizer,
            all_steps=self.all_steps,
            progress=progress,
        )


def _check(name: str, value: object, contract: Any, known: str) -> None:
    """A choice is a value, not its class, that answers what the contract asks."""
    if value is None and name != "method":  # all others may be left open
        return
    if isinstance(value, type) or not isinstance(value, contract):
        raise InputError(
            f"`{name}=` must be {known}, or a value of your own that answers what the protocol "
            f"`{contract.__name__}` asks; got {value!r}."
        )
