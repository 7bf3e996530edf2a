"""The inner expectation E_p(y|θ) of a loss or utility: four ways behind one interface.

In order of preference: a closed form; enumeration of a discrete outcome; quadrature over a
continuous one; reparameterised Monte Carlo. `choose` picks the first that applies; passing one
of the values below as `expectation=` overrides it.
"""

from dataclasses import dataclass
from typing import TypeAlias, final

import jax
from numpyro.distributions import Distribution

from stakes.errors import InputError, NoClosedForm
from stakes.expectation import statistics
from stakes.expectation.outcome import Mixture, Single
from stakes.expectation.rules import (
    Enumeration,
    MonteCarlo,
    Quadrature,
    Rule,
)
from stakes.expectation.sums import log_sum_exp, weighted_sum
from stakes.typing import Array, ExpectedLoss, Key, Loss
from stakes.utilities import ExpUtility, Gain, ScaledLoss, Utility

__all__ = [
    "ClosedForm",
    "Enumeration",
    "Expectation",
    "Mixture",
    "MonteCarlo",
    "Quadrature",
    "Rule",
    "Single",
    "choose",
    "expected_loss",
    "log_expected_utility",
    "weighted_sum",
]


@final
@dataclass(frozen=True)
class ClosedForm:
    """The expectation as a formula: exact, and as cheap as evaluating the loss once.

    >>> import stakes
    >>> stakes.ClosedForm()
    ClosedForm()
    """

    exact = True


Expectation: TypeAlias = ClosedForm | Enumeration | Quadrature | MonteCarlo


def expected_loss(
    expectation: Expectation, key: Key | None, outcome: Distribution, loss: Loss, decision: Array
) -> Array:
    """E_p(y|θ) ℓ(y, h), for each instance."""
    if isinstance(expectation, ClosedForm):
        return _known(loss).expected(Single(outcome), decision)
    points, log_weights = expectation.rule(key, outcome, decision)
    return weighted_sum(log_weights, loss(points, decision))


def log_expected_utility(
    expectation: Expectation,
    key: Key | None,
    outcome: Distribution,
    utility: ExpUtility | Utility,
    decision: Array,
) -> Array:
    """log E_p(y|θ) u(y, h), for each instance, computed in log space."""
    if isinstance(expectation, ClosedForm):
        if not isinstance(utility, ExpUtility):
            raise NoClosedForm("A utility given as a function has no closed-form expectation.")
        return _known(utility.loss).log_expected_utility(Single(outcome), decision, utility.scale)
    points, log_weights = expectation.rule(key, outcome, decision)
    return log_sum_exp(log_weights + utility.log(points, decision))


def choose(outcome: Distribution, gain: Gain, decision: Array) -> Expectation:
    """The best expectation for this outcome distribution and this loss or utility."""
    if _has_closed_form(outcome, gain, decision):
        return ClosedForm()
    if statistics.is_discrete(outcome):
        return Enumeration()
    if _has_quantiles(outcome, decision):
        return Quadrature()
    if outcome.has_rsample and not outcome.event_shape:
        return MonteCarlo()
    raise InputError(
        f"No expectation can handle an outcome that is {type(outcome).__name__}: it has no closed "
        f"form, is neither discrete nor does it have an inverse distribution function `icdf`, and "
        f"its draws cannot be reparameterised. Rewrite the outcome with such a distribution, or "
        f"marginalise what makes it so."
    )


def check(expectation: Expectation, outcome: Distribution, gain: Gain, decision: Array) -> None:
    """Say by name why an expectation chosen by the user does not fit the outcome."""
    name = type(outcome).__name__
    discrete = statistics.is_discrete(outcome)
    reason = None
    if isinstance(expectation, ClosedForm) and not _has_closed_form(outcome, gain, decision):
        reason = "no closed form is known for this loss or utility"
    elif isinstance(expectation, Enumeration) and not discrete:
        reason = "only discrete outcomes can be enumerated"
    elif isinstance(expectation, Quadrature) and (
        discrete or not _has_quantiles(outcome, decision)
    ):
        reason = "quadrature takes continuous outcomes that have an `icdf`"
    elif isinstance(expectation, MonteCarlo) and not outcome.has_rsample:
        reason = "its draws cannot be reparameterised, so no gradient would flow"
    if reason:
        raise InputError(
            f"`expectation={expectation}` does not fit an outcome that is {name}: {reason}. "
            f"Leave `expectation` out to have the best one chosen."
        )


def _has_closed_form(outcome: Distribution, gain: Gain, decision: Array) -> bool:
    def ask() -> Array:
        if isinstance(gain, ScaledLoss):
            return expected_loss(ClosedForm(), None, outcome, gain.loss, decision)
        return log_expected_utility(ClosedForm(), None, outcome, gain, decision)

    try:
        jax.eval_shape(ask)
    except NoClosedForm:
        return False
    return True


def _has_quantiles(outcome: Distribution, decision: Array) -> bool:
    try:
        jax.eval_shape(lambda: Quadrature().rule(None, outcome, decision))
    except (NotImplementedError, InputError):
        return False
    return not outcome.event_shape


def _known(loss: Loss) -> ExpectedLoss:
    if not isinstance(loss, ExpectedLoss):
        raise NoClosedForm("A loss given as a function has no closed-form expectation.")
    return loss
