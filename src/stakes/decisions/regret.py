"""Regret: a decision judged, for each θ, against the best that could be done if θ were known.

What is subtracted, max over h' of log ũ(θ, h'), depends on θ alone: the best decisions under any
posterior stay the same, and a posterior gains nothing by making outcomes look predictable. By the
envelope theorem its slope in θ is that of log ũ(θ, h') with h' held fixed.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Key
from stakes.decisions.coarse import tabled_decision, term_decision
from stakes.decisions.known import beside, is_any_number
from stakes.decisions.numerical import is_whole
from stakes.decisions.risks import REAL
from stakes.errors import NoClosedForm
from stakes.losses import AnyLoss
from stakes.port import Response, outcome_at
from stakes.protocols import (
    Estimator,
    Expectation,
    Gain,
    Objective,
    Predicted,
    Space,
    UtilityTerm,
)
from stakes.spaces import Shared, Vector, laid_out, seen


def objective_of(
    gain: Gain,
    expectation: Expectation,
    estimator: Estimator | None = None,
    space: Space = REAL,
) -> Objective:
    """What a calibrated fit maximises, with this expectation and estimator."""
    alone = gain.term(expectation, estimator)

    def worth(key: Key, outcome: Distribution | Response, decision: Array) -> Array:
        return alone(key, outcome_at(outcome, decision), seen(space, decision))

    if not gain.regret:
        return Objective(gain, expectation, worth, worth, space)
    # An estimator that was chosen may have its largest value elsewhere than log E u itself, and
    # the best number of all is no guide to the best one in a space unless the loss is convex.
    alike = isinstance(space, Shared | Vector)
    on_its_own = is_any_number(space) or (_is_convex(gain) and not alike)
    is_known = estimator is None and on_its_own
    known = gain.exact_decision if is_known else _no_formula
    build = partial(_regret, gain, expectation, estimator, worth, known)
    term = SharedTerm(build, space) if isinstance(space, Shared) else build(space)
    return Objective(gain, expectation, worth, term, space)


@final
@dataclass(frozen=True, eq=False)
class SharedTerm:
    """A term whose best decisions are shared: which cases matter is known once they are drawn."""

    build: Callable[[Space], UtilityTerm]
    space: Shared

    def weighing(self, weight: Array) -> UtilityTerm:
        """The term in which these cases count."""
        return self.build(self.space.counting(weight))

    def __call__(self, key: Key, outcome: Distribution, decision: Array) -> Array:
        return self.build(self.space)(key, outcome, decision)


def _is_convex(gain: Gain) -> bool:
    return gain.bayes_is_best and gain.loss is not None and AnyLoss(gain.loss).convex


def _no_formula(predicted: Predicted) -> Array:
    raise NoClosedForm("Where an estimate is largest has no closed form.")


def _regret(
    gain: Gain,
    expectation: Expectation,
    estimator: Estimator | None,
    worth: UtilityTerm,
    known: Callable[[Predicted], Array],
    space: Space,
) -> UtilityTerm:
    """log ũ(θ, h) - max over h' of log ũ(θ, h')."""
    is_plain = estimator is None and is_any_number(space)

    def best(key: Key, outcome: Distribution, decision: Array) -> Array:
        """The best decision for this θ: by a formula, or by a search that starts at this one."""
        alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)
        if space.actions is None and not isinstance(outcome, Response):
            with suppress(NoClosedForm):
                best = known(expectation.mixture(alone))
                if isinstance(space, Vector):
                    return laid_out(best, decision[0])
                best = jnp.broadcast_to(best, decision.shape)
                return beside(lambda place: -worth(key, outcome, place), space, best)
            if not isinstance(space, Shared | Vector):
                with suppress(NoClosedForm):
                    return by_table(key, outcome, decision)
        same = lambda _, outcome, decision: worth(key, outcome, decision)  # noqa: E731
        return term_decision(same, key, alone, decision, held=expectation.held, space=space)

    def by_table(key: Key, outcome: Distribution, decision: Array) -> Array:
        table = expectation.table(key, outcome, decision)
        quick = gain.term(table, estimator)
        shortfall = lambda decision: -quick(key, outcome, space.inside(decision))  # noqa: E731
        counts = outcome.support.is_discrete or is_whole(space)
        return space.inside(tabled_decision(shortfall, table, decision, counts=counts))

    def term(key: Key, outcome: Distribution, decision: Array) -> Array:
        if is_plain and not isinstance(outcome, Response):
            with suppress(NoClosedForm):
                return gain.regret_term(expectation)(key, outcome, seen(space, decision))
        fixed = jax.lax.stop_gradient((key, outcome, decision))
        against = jax.lax.stop_gradient(best(*fixed))
        gap = worth(key, outcome, decision) - worth(key, outcome, against)
        if isinstance(space, Shared):  # what is best for all need not be so for each
            return gap
        # A table may take a decision for better that is worse by a hair: slopes stay.
        return gap - jnp.maximum(jax.lax.stop_gradient(gap), 0.0)

    return term
