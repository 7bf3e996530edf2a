"""What a decision is worth: utilities, and the two transforms of the paper from losses to them.

The bound has the logarithm of an expected utility, so a utility has to be positive. A loss ℓ
becomes one on a scale M. `Linearized` takes u = M - ℓ (eq. 2), whose logarithm is linearized to log
M - ℓ/M; the constant does not matter. `Exponential` takes u = exp(-ℓ/M) (eq. 3). M is a quantile of
the losses of plain VI's decisions, or given.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self, final

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from stakes import checks
from stakes._types import Array, Distribution, Key, Number
from stakes.errors import InputError, NoClosedForm, NoScaleError, name_of, warn
from stakes.losses import AnyLoss, WithCovariates, at_mean, covariates_of
from stakes.protocols import (
    Criterion,
    Estimator,
    Expectation,
    Loss,
    Over,
    PositiveUtility,
    Predicted,
    Space,
    UtilityTerm,
)
from stakes.utility_estimators import Nested
from stakes.varying import Columns, Need, with_values


class _InsideLogarithm(Criterion, PositiveUtility, ABC):
    """What utilities share: the bound has their logarithm, decisions maximise them as they are."""

    argument = "utility"
    rule = "zero or negative"
    remedy = (
        "The bound takes its logarithm; keep the utility above zero. One that underflows, such as "
        "exp(-(y-h)²), is safe as `ExpUtility(Squared(), scale=1.0)`."
    )
    bayes_is_best = False

    @abstractmethod
    def __call__(self, outcome: Array, decision: Array) -> Array: ...

    def log_expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        raise NoClosedForm("The largest expected utility has no closed form.")

    def regret_term(self, expectation: Expectation) -> UtilityTerm:
        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return -expectation.log_expected_regret(key, outcome, self, decision)

        return term

    def exact_decision(self, predicted: Predicted) -> Array:
        raise NoClosedForm("A utility given as a function has no closed-form decision.")

    def term(self, expectation: Expectation, estimator: Estimator | None = None) -> UtilityTerm:
        return (Nested() if estimator is None else estimator).term(self, expectation)

    def cost(self, outcome: Array, decision: Array) -> Array:
        return -self(outcome, decision)

    def risk(
        self, expectation: Expectation, key: Key | None, outcome: Distribution, decision: Array
    ) -> Array:
        return -expectation.log_expected(key, outcome, self, decision)

    def average(self, risks: Array) -> Array:
        return jnp.log(risks.shape[0]) - logsumexp(-risks, axis=0)

    def worth(self, risks: Array) -> Array:
        return jnp.exp(-risks)

    def pool(self, risks: Array, over: Over) -> Array:
        """-log of the sum of expected utilities."""
        least = over(risks, "least")
        near = jnp.where(jnp.isfinite(least), least, 0.0)
        return near - jnp.log(over(jnp.exp(near - risks), "sum"))


@final
@dataclass(frozen=True)
class Utility(_InsideLogarithm):
    """A user's own utility `fn(outcome, decision)`, positive and elementwise: larger is better.

    `infimum` is the least value it approaches. Calibration is strongest at zero: adding a
    constant to a utility does not change its best decisions but weakens the calibration.

    With `regret`, a decision is judged for each θ against the best one for that θ; without it, by
    its utility alone, as in the paper.

    Examples:
        >>> import jax.numpy as jnp, stakes
        >>> hit = stakes.Utility(lambda outcome, decision: jnp.exp(-((outcome - decision) ** 2)))
        >>> float(hit(1.0, 1.0))
        1.0
    """

    fn: Callable[[Array, Array], Array]
    infimum: float = 0.0
    regret: bool = True

    def __post_init__(self) -> None:
        checks.function("`Utility(fn=...)`", self.fn, ("outcome", "decision"), others=True)
        hint = "The bound takes the logarithm of the utility: add a constant to it."
        infimum = checks.number("`Utility(infimum=...)`", self.infimum, least=0, hint=hint)
        checks.assign(self, infimum=infimum)
        checks.flags(self, "regret")
        if infimum > 0:
            warn(
                f"`Utility(infimum={infimum})`: an infimum above zero weakens the "
                f"calibration; subtract it from the utility for the full effect.",
            )

    @property
    def title(self) -> str:
        return name_of(self.fn)

    @property
    def needs(self) -> tuple[Need, ...]:
        return covariates_of(self.fn)

    def at(self, columns: Columns) -> "Utility":
        """Return the utility for some cases, with the values of its further arguments in place."""
        return with_values(self, fn=WithCovariates.of(self.fn, columns)) if self.needs else self

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return self.fn(outcome, decision)

    def log(self, outcome: Array, decision: Array) -> Array:
        """log u(y, h).

        Far from the decision a utility may underflow to zero, where the logarithm has no slope: it
        is minus infinity there, with a slope of zero.
        """
        # Far from the decision a utility may underflow to zero, where log has no slope.
        value = jnp.asarray(self.fn(outcome, decision))
        positive = value > 0
        return jnp.where(positive, jnp.log(jnp.where(positive, value, 1.0)), -jnp.inf)

    def log_expected(self, predicted: Predicted, decision: Array) -> Array:
        """Of a utility that is linear in the outcome, such as revenue, the mean is enough."""
        linear = at_mean(self.fn, predicted, decision)
        if linear is None:
            raise NoClosedForm("A utility given as a function has no closed-form expectation.")
        return jnp.log(linear.value)

    def expected_log(
        self, expectation: Expectation, key: Key | None, outcome: Distribution, decision: Array
    ) -> Array:
        """E log u(y, h), the term of Jensen's bound."""
        return expectation.expected(key, outcome, self.log, decision)

    def values(self, outcome: Array, decision: Array) -> Array:
        return jnp.asarray(self.fn(outcome, decision))

    def breaks_rule(self, values: np.ndarray) -> np.ndarray:
        return values <= 0


@final
@dataclass(frozen=True)
class ExpUtility(_InsideLogarithm):
    """exp(-ℓ/M) of eq. 3, kept as its logarithm so that large losses do not underflow.

    It can also be the `utility=` of a problem, in closed form where the loss has one. `regret` is
    explained at `Utility`.

    Examples:
        >>> import stakes
        >>> round(float(stakes.ExpUtility(stakes.Squared(), scale=2.0)(1.0, 3.0)), 4)
        0.1353
    """

    loss: Loss = field()
    scale: Number
    regret: bool = True

    def __post_init__(self) -> None:
        _check_scaled(self)

    @property
    def title(self) -> str:
        return repr(self)

    @property
    def space(self) -> Space | None:
        return AnyLoss(self.loss).space

    @property
    def of_numbers(self) -> bool:
        return AnyLoss(self.loss).of_numbers

    @property
    def needs(self) -> tuple[Need, ...]:
        return AnyLoss(self.loss).needs

    def at(self, columns: Columns) -> "ExpUtility":
        return replace(self, loss=AnyLoss(self.loss).at(columns).loss) if self.needs else self

    def __call__(self, outcome: Array, decision: Array) -> Array:
        return jnp.exp(self.log(outcome, decision))

    def log(self, outcome: Array, decision: Array) -> Array:
        """-ℓ(y, h)/M."""
        return -self.loss(outcome, decision) / self.scale

    def log_expected(self, predicted: Predicted, decision: Array) -> Array:
        """log E exp(-ℓ(y, h)/M), by a formula of the loss."""
        return AnyLoss(self.loss).log_expected_utility(predicted, decision, self.scale)

    def log_expected_regret(self, predicted: Predicted, decision: Array) -> Array:
        """Its largest value over all decisions, less that of h, by a formula of the loss."""
        return AnyLoss(self.loss).log_utility_regret(predicted, decision, self.scale)

    def exact_decision(self, predicted: Predicted) -> Array:
        """The decision at which it is largest, by a formula of the loss."""
        return AnyLoss(self.loss).exact_utility_decision(predicted, self.scale)

    def expected_log(
        self, expectation: Expectation, key: Key | None, outcome: Distribution, decision: Array
    ) -> Array:
        """The linearized term: log u = -ℓ/M."""
        return -expectation.expected(key, outcome, self.loss, decision) / self.scale

    @property
    def of_values(self) -> str:
        return f"the logarithm of `utility={self.title}`"

    def values(self, outcome: Array, decision: Array) -> Array:
        """The logarithm: the utility may underflow, but is never zero."""
        return jnp.asarray(self.log(outcome, decision))

    def breaks_rule(self, values: np.ndarray) -> np.ndarray:
        return np.zeros_like(values, bool)


@final
@dataclass(frozen=True)
class ScaledLoss:
    """M - ℓ of eq. 2, whose logarithm is linearized to -ℓ/M."""

    loss: Loss
    scale: Number
    regret: bool = True

    bayes_is_best = True

    def __post_init__(self) -> None:
        _check_scaled(self)

    def term(self, expectation: Expectation, estimator: Estimator | None = None) -> UtilityTerm:
        """-E ℓ / M (eq. 7)."""
        if estimator is not None:
            raise InputError(
                f"`estimator={estimator}`: a linearized loss has no logarithm to estimate. Use "
                f"`transform=Exponential(...)`, or leave `estimator` out."
            )

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return -expectation.expected(key, outcome, self.loss, decision) / self.scale

        return term

    def regret_term(self, expectation: Expectation) -> UtilityTerm:
        """-(E ℓ - min E ℓ) / M: zero for the decision that is best for this θ."""

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return -expectation.expected_regret(key, outcome, self.loss, decision) / self.scale

        return term

    def exact_decision(self, predicted: Predicted) -> Array:
        """The Bayes decision of the loss, which maximises the term for any M."""
        return AnyLoss(self.loss).decision(predicted)


def _check_scaled(gain: ExpUtility | ScaledLoss) -> None:
    """Check loss, `regret` and scale of a gain.

    The scale may be traced, and arrays may have one for each case.
    """
    name, scale = type(gain).__name__, gain.scale
    checks.function(f"`{name}(loss=...)`", gain.loss, ("outcome", "decision"), others=True)
    checks.flags(gain, "regret")
    if not checks.is_traced(scale) and not _is_array_of_scales(scale):
        plain = checks.number(f"`{name}(scale=...)`, which is M,", scale, above=0)
        checks.assign(gain, scale=plain)


def _is_array_of_scales(scale: object) -> bool:
    if not isinstance(scale, np.ndarray | Array) or not checks.holds_numbers(scale):
        return False
    return bool(scale.ndim and scale.size and np.all((scale > 0) & np.isfinite(scale)))


@dataclass(frozen=True)
class _ByQuantile:
    """M is a quantile of the losses of plain VI's decisions, or given."""

    quantile: float = 0.9
    scale: float | None = None
    regret: bool = True

    def __post_init__(self) -> None:
        name = type(self).__name__
        hint = f"For a larger M give it by hand: `{name}(scale=...)`."
        where = f"`{name}(quantile=...)`"
        quantile = checks.number(where, self.quantile, above=0, most=1, hint=hint)
        checks.assign(self, quantile=quantile)
        checks.flags(self, "regret")
        if self.scale is not None:
            scale = checks.number(f"`{name}(scale=...)`, which is M,", self.scale, above=0)
            checks.assign(self, scale=scale)

    def at(self, scale: float) -> Self:
        """With this M."""
        return replace(self, scale=checks.number("`at(scale)`", scale, above=0))

    def fitted(self, losses: np.ndarray) -> Self:
        """With M_q set to the quantile of these losses, unless M was given."""
        losses = checks.array("`fitted(losses)`", losses)
        if self.scale is not None:
            return self
        with np.errstate(invalid="ignore"):
            scale = float(np.quantile(losses, self.quantile))
        name = type(self).__name__
        if not 0 < scale < float("inf"):
            raise NoScaleError(
                f"`{name}(quantile={self.quantile})`: this quantile of the VI losses is {scale}, "
                f"but M has to be positive and finite. Give it by hand: `{name}(scale=...)`, as "
                f"the `transform=` of `calibrate` or `Calibrated`."
            )
        return self.at(scale)


@final
@dataclass(frozen=True)
class Linearized(_ByQuantile):
    """u = M - ℓ with log u linearized: U = -E ℓ / M (eqs. 2 and 7), as regret.

    M is the `quantile` of the training losses of uncalibrated VI, or `scale` where given. With
    `regret`, the expected loss counts for each θ only insofar as it exceeds that of the best
    decision for that θ, so that nothing is gained by making outcomes look predictable;
    `regret=False` is the form of the paper. They differ only where the model learns its noise.

    Examples:
        >>> import numpy as np, stakes
        >>> stakes.Linearized(quantile=0.5).fitted(np.array([1.0, 2.0, 7.0])).scale
        2.0
    """

    def __call__(self, loss: Loss, scale: Number) -> ScaledLoss:
        return ScaledLoss(loss, scale, self.regret)


@final
@dataclass(frozen=True)
class Exponential(_ByQuantile):
    """u = exp(-ℓ / M) (eq. 3), as regret: see `Linearized` for what that means.

    M is the `quantile` of the training losses of uncalibrated VI, or `scale` where given.

    Examples:
        >>> import stakes
        >>> utility = stakes.Exponential()(stakes.Absolute(), 2.0)
        >>> round(float(utility(1.0, 3.0)), 4)  # exp(-1)
        0.3679
    """

    def __call__(self, loss: Loss, scale: Number) -> ExpUtility:
        return ExpUtility(loss, scale, self.regret)
