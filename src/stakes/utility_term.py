"""The utility-dependent term U(λ, h) = E_q log ũ(θ, h), for one draw of θ and each instance.

Every estimator of the paper is a mean over draws of θ, so that each is written here for one
draw; the caller averages over draws, masks and sums over instances.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import jax.numpy as jnp

from stakes.errors import InputError
from stakes.expectation import (
    ClosedForm,
    Expectation,
    MonteCarlo,
    expected_loss,
    log_expected_utility,
    weighted_sum,
)
from stakes.typing import Array, Distribution, Key
from stakes.utilities import ExpUtility, Gain, ScaledLoss, Utility

UtilityTerm: TypeAlias = Callable[[Key, Distribution, Array], Array]
"""(key, p(y|θ), decisions) -> log ũ(θ, h) or its estimate, for each instance."""


@final
@dataclass(frozen=True)
class Nested:
    """log E_y u (eq. 6); exact with an exact expectation, biased low with draws of y.

    >>> import stakes
    >>> stakes.Nested()
    Nested()
    """


@final
@dataclass(frozen=True)
class Jensen:
    """E_y log u: the bound that Jensen's inequality gives, below `Nested`.

    >>> import stakes
    >>> stakes.Jensen()
    Jensen()
    """


@final
@dataclass(frozen=True)
class Taylor:
    """`Nested` plus the second-order Taylor correction of its bias, Var(ū) / 2ū².

    With an exact expectation there is no bias to correct and it is `Nested`.

    >>> import stakes
    >>> stakes.Taylor()
    Taylor()
    """


Estimator: TypeAlias = Nested | Jensen | Taylor


def utility_term(
    gain: Gain, expectation: Expectation, estimator: Estimator | None = None
) -> UtilityTerm:
    """The term for a linearized loss (eq. 7), or for a utility by the estimator given."""
    if isinstance(gain, ScaledLoss):
        if estimator is not None:
            raise InputError(
                f"`estimator={estimator}`: a linearized loss has no logarithm to estimate. Use "
                f"`transform=Exponential(...)`, or leave `estimator` out."
            )
        return _linearized(gain, expectation)
    match estimator:
        case None | Nested():
            return _nested(gain, expectation)
        case Jensen():
            return _jensen(gain, expectation)
        case Taylor():
            return _taylor(gain, expectation)
    raise InputError(
        f"`estimator=` must be `Nested()`, `Jensen()` or `Taylor()`; got {estimator!r}."
    )


def _linearized(gain: ScaledLoss, expectation: Expectation) -> UtilityTerm:
    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        return -expected_loss(expectation, key, outcome, gain.loss, decision) / gain.scale

    return term


def _nested(gain: ExpUtility | Utility, expectation: Expectation) -> UtilityTerm:
    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        return log_expected_utility(expectation, key, outcome, gain, decision)

    return term


def _jensen(gain: ExpUtility | Utility, expectation: Expectation) -> UtilityTerm:
    if isinstance(gain, ExpUtility):  # log u = -ℓ/M, the linearized term
        return _linearized(ScaledLoss(gain.loss, gain.scale), expectation)

    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        if isinstance(expectation, ClosedForm):
            raise InputError("`Jensen()` of a user's own utility has no closed form.")
        points, log_weights = expectation.rule(key, outcome, decision)
        return weighted_sum(log_weights, gain.log(points, decision))

    return term


def _taylor(gain: ExpUtility | Utility, expectation: Expectation) -> UtilityTerm:
    if not isinstance(expectation, MonteCarlo):
        return _nested(gain, expectation)

    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        points, _ = expectation.rule(key, outcome, decision)
        log_u = gain.log(points, decision)
        largest = log_u.max(axis=0)
        u = jnp.exp(log_u - largest)
        mean = u.mean(axis=0)
        draws = max(expectation.draws - 1, 1)
        variance_of_mean = jnp.square(u - mean).mean(axis=0) / draws
        return largest + jnp.log(mean) + variance_of_mean / (2 * jnp.square(mean))

    return term
