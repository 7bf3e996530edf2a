"""Regret: a decision judged, for each θ, against the best that could be done if θ were known.

What is subtracted, max over h' of log ũ(θ, h'), depends on θ alone: the best decisions under any
posterior stay the same, and a posterior gains nothing by making outcomes look predictable. By the
envelope theorem its slope in θ is that of log ũ(θ, h') with h' held fixed.
"""

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Key
from stakes.deciding.best import term_decision
from stakes.errors import NoClosedForm
from stakes.protocols import Estimator, Expectation, Gain, Objective, UtilityTerm


def objective_of(
    gain: Gain, expectation: Expectation, estimator: Estimator | None = None
) -> Objective:
    """What a calibrated fit maximises, with this expectation and estimator."""
    worth = gain.term(expectation, estimator)
    term = _regret(gain, expectation, worth) if gain.regret else worth
    return Objective(gain, expectation, worth, term)


def _regret(gain: Gain, expectation: Expectation, worth: UtilityTerm) -> UtilityTerm:
    """log ũ(θ, h) - max over h' of log ũ(θ, h'), never positive."""

    def best(key: Key, outcome: Distribution, decision: Array) -> Array:
        """The best decision for this θ: by a formula, or no worse than the one at hand."""
        alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)
        try:
            known = gain.exact_decision(expectation.mixture(alone))
            return jnp.broadcast_to(known, decision.shape)
        except NoClosedForm:
            return term_decision(worth, key, alone, decision, held=expectation.held)

    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        try:
            return gain.regret_term(expectation)(key, outcome, decision)
        except NoClosedForm:
            fixed = jax.lax.stop_gradient((key, outcome, decision))
            against = jax.lax.stop_gradient(best(*fixed))
            return worth(key, outcome, decision) - worth(key, outcome, against)

    return term
