"""Regret: a decision judged, for each θ, against the best that could be done if θ were known.

What is subtracted, max over h' of log ũ(θ, h'), depends on θ alone: the best decisions under any
posterior stay the same, and a posterior gains nothing by making outcomes look predictable. By the
envelope theorem its slope in θ is that of log ũ(θ, h') with h' held fixed.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import final

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Key
from stakes.decisions.rules import REAL, tabled_decision, term_decision
from stakes.decisions.search import best_beside, plan_search
from stakes.errors import NoClosedForm
from stakes.losses import AnyLoss
from stakes.port import Outcome, outcome_at, responds
from stakes.protocols import Estimator, Expectation, Gain, Groups, Objective, Space
from stakes.spaces import ALONE


def objective_of(
    gain: Gain,
    expectation: Expectation,
    estimator: Estimator | None = None,
    space: Space = REAL,
    groups: Groups = ALONE,
) -> Objective:
    """What a calibrated fit maximises, with this expectation and estimator."""
    alone = gain.term(expectation, estimator)

    def worth(key: Key, outcome: Outcome, decision: Array) -> Array:
        return alone(key, outcome_at(outcome, decision), space.unpack(decision))

    objective = Objective(gain, expectation, worth, worth, space, groups)
    if not gain.regret:
        return objective
    return objective._replace(term=Regret(objective, estimator))


@final
@dataclass(frozen=True, eq=False)
class Regret:
    """log ũ(θ, h) - max over h' of log ũ(θ, h'), for one draw of θ."""

    objective: Objective
    estimator: Estimator | None

    def weighing(self, weight: Array) -> "Regret":
        """The term in which these cases count: which do is known once they are drawn."""
        return replace(self, objective=self.objective.counting(weight))

    def __call__(self, key: Key, outcome: Outcome, decision: Array) -> Array:
        gain, expectation, worth, _, space, groups, *_ = self.objective
        alone = not groups.are_shared
        if self.estimator is None and alone and space.is_unlimited and not responds(outcome):
            with suppress(NoClosedForm):
                return gain.regret_term(expectation)(key, outcome, space.unpack(decision))
        fixed = jax.lax.stop_gradient((key, outcome, decision))
        against = jax.lax.stop_gradient(self._best(*fixed))
        gap = worth(key, outcome, decision) - worth(key, outcome, against)
        if groups.are_shared:  # what is best for all need not be so for each
            return gap
        # A table may take a decision for better that is worse by a hair: slopes stay.
        return gap - jnp.maximum(jax.lax.stop_gradient(gap), 0.0)

    def _best(self, key: Key, outcome: Outcome, decision: Array) -> Array:
        """The best decision for this θ: by a formula, or by a search that starts at this one."""
        gain, expectation, worth, _, space, groups, *_ = self.objective
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], outcome)
        convex = gain.bayes_is_best and gain.loss is not None and AnyLoss(gain.loss).convex
        search = plan_search(space, groups, convex=convex, responds=responds(outcome))
        # An estimator may have its largest value elsewhere than log E u itself.
        if search.by_formula and self.estimator is None:
            with suppress(NoClosedForm):
                like = decision[0] if space.axes else decision
                best = space.pack(gain.exact_decision(expectation.mixture(one)), like)
                return best_beside(lambda place: -worth(key, outcome, place), space, best)
        if search.by_table:
            with suppress(NoClosedForm):
                return self._best_by_table(key, outcome, decision)
        same = lambda _, outcome, decision: worth(key, outcome, decision)  # noqa: E731
        held = expectation.cost.points
        return term_decision(same, key, one, decision, held=held, space=space, groups=groups)

    def _best_by_table(self, key: Key, outcome: Distribution, decision: Array) -> Array:
        gain, space = self.objective.gain, self.objective.space
        table = self.objective.expectation.table(key, outcome, decision)
        quick = gain.term(table, self.estimator)
        shortfall = lambda decision: -quick(key, outcome, space.inside(decision))  # noqa: E731
        counts = outcome.support.is_discrete or space.is_whole
        return space.inside(tabled_decision(shortfall, table, decision, counts=counts))
