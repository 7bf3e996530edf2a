"""Regret: a decision judged, for each θ, against the best that could be done if θ were known.

What is subtracted, max over h' of log ũ(θ, h'), depends on θ alone: the best decisions under any
posterior stay the same, and a posterior gains nothing by making outcomes look predictable. By the
envelope theorem its slope in θ is that of log ũ(θ, h') with h' held fixed.
"""

from collections.abc import Callable
from contextlib import suppress

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Key
from stakes.deciding.best import tabled_decision, term_decision
from stakes.errors import NoClosedForm
from stakes.protocols import Estimator, Expectation, Gain, Objective, Predicted, UtilityTerm


def objective_of(
    gain: Gain, expectation: Expectation, estimator: Estimator | None = None
) -> Objective:
    """What a calibrated fit maximises, with this expectation and estimator."""
    worth = gain.term(expectation, estimator)
    if not gain.regret:
        return Objective(gain, expectation, worth, worth)
    # An estimator that was chosen may have its largest value elsewhere than log E u itself.
    known = gain.exact_decision if estimator is None else _no_formula
    return Objective(gain, expectation, worth, _regret(gain, expectation, estimator, known))


def _no_formula(predicted: Predicted) -> Array:
    raise NoClosedForm("Where an estimate is largest has no closed form.")


def _regret(
    gain: Gain,
    expectation: Expectation,
    estimator: Estimator | None,
    known: Callable[[Predicted], Array],
) -> UtilityTerm:
    """log ũ(θ, h) - max over h' of log ũ(θ, h')."""
    worth = gain.term(expectation, estimator)

    def best(key: Key, outcome: Distribution, decision: Array) -> Array:
        """The best decision for this θ: by a formula, or by a search that starts at this one."""
        alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)
        with suppress(NoClosedForm):
            return jnp.broadcast_to(known(expectation.mixture(alone)), decision.shape)
        try:
            table = expectation.table(key, outcome, decision)
        except NoClosedForm:
            same = lambda _, outcome, decision: worth(key, outcome, decision)  # noqa: E731
            return term_decision(same, key, alone, decision, held=expectation.held)
        quick = gain.term(table, estimator)
        shortfall = lambda decision: -quick(key, outcome, decision)  # noqa: E731
        counts = outcome.support.is_discrete
        return tabled_decision(shortfall, table, decision, counts=counts)

    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        try:
            return gain.regret_term(expectation)(key, outcome, decision)
        except NoClosedForm:
            fixed = jax.lax.stop_gradient((key, outcome, decision))
            against = jax.lax.stop_gradient(best(*fixed))
            gap = worth(key, outcome, decision) - worth(key, outcome, against)
            # A table may take a decision for better that is worse by a hair: slopes stay.
            return gap - jnp.maximum(jax.lax.stop_gradient(gap), 0.0)

    return term
