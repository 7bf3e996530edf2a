"""The choice of an expectation for an outcome and a gain.

Candidates are asked in order of preference, exact and cheap ones first. Each may object and say
why it cannot handle a case. The first without an objection is taken.
"""

from stakes._types import Array, Distribution
from stakes.errors import InputError
from stakes.expectation.closed_form import ClosedForm, Known
from stakes.expectation.componentwise import Componentwise
from stakes.expectation.enumeration import Enumeration
from stakes.expectation.monte_carlo import MonteCarlo, ScoreFunction
from stakes.expectation.quadrature import Quadrature
from stakes.protocols import Expectation, Gain

BEST_FIRST: tuple[Expectation, ...] = (
    ClosedForm(),
    Known(),
    Enumeration(),
    Quadrature(),
    Componentwise(),
    MonteCarlo(),
    ScoreFunction(),
)


def choose(outcome: Distribution, gain: Gain, decision: Array) -> Expectation:
    """Return the best expectation for this outcome distribution and this loss or utility.

    Args:
        outcome: p(y|θ) for one θ; values may be traced.
        gain: what is averaged.
        decision: in the shape of the cases.
    """
    for expectation in BEST_FIRST:
        if expectation.objection(outcome, gain, decision) is None:
            return expectation
    raise InputError(
        f"No expectation can handle an outcome that is {type(outcome).__name__}: it has no closed "
        f"form, is not discrete, has no inverse distribution function `icdf`, and its density is "
        f"not that of its draws, if it has any. "
        f"Rewrite the outcome with a distribution that allows one of these, or marginalise what "
        f"prevents it."
    )


def check(expectation: Expectation, outcome: Distribution, gain: Gain, decision: Array) -> None:
    """Raise an error if an expectation chosen by the user does not fit the outcome."""
    reason = expectation.objection(outcome, gain, decision)
    if reason is not None:
        raise InputError(
            f"`expectation={expectation}` does not fit an outcome that is "
            f"{type(outcome).__name__}: {reason}. Leave `expectation` out to have the best one "
            f"chosen."
        )
