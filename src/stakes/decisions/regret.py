"""Regret: a decision judged, for each θ, against the best that could be done if θ were known.

What is subtracted, max over h' of log ũ(θ, h'), depends on θ alone: the best decisions under any
posterior stay the same, and a posterior gains nothing by making outcomes look predictable. By the
envelope theorem its slope in θ is that of log ũ(θ, h') with h' held fixed.

In a step of a fit the expectation has few points. Then slopes by a decision are differences between
two decisions beside it, so that a loss may jump anywhere. And h' is searched for at one draw of θ;
at the others it lies about as far from the middle of the outcome in units of its spread, and a
Newton step from there corrects the value and its slope in θ.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Key, PerInstance
from stakes.decisions.minimise import Curve
from stakes.decisions.rules import REAL, tabled_decision, term_decision
from stakes.decisions.search import best_beside, plan_search
from stakes.errors import NoClosedForm
from stakes.losses import AnyLoss
from stakes.port import Outcome, outcome_at, responds
from stakes.protocols import (
    Estimator,
    Expectation,
    Gain,
    Groups,
    Objective,
    Space,
    UtilityTerm,
)
from stakes.spaces import ALONE

BESIDE = 0.1
"""Standard deviations of the outcome between a decision and one to either side of it."""


def objective_of(
    gain: Gain,
    expectation: Expectation,
    estimator: Estimator | None = None,
    space: Space = REAL,
    groups: Groups = ALONE,
) -> Objective:
    """What a calibrated fit maximises, with this expectation and estimator."""
    alone = gain.term(expectation, estimator)

    def tried(key: Key, outcome: Distribution, decision: Array) -> Array:
        return alone(key, outcome, space.unpack(decision))

    def worth(key: Key, outcome: Outcome, decision: Array) -> Array:
        there = outcome_at(outcome, decision)
        spacing = expectation.spacing(there) if space.is_smooth else None
        if spacing is None:
            return tried(key, there, decision)
        value = lambda decision: tried(key, there, decision)  # noqa: E731
        return with_slope(value, space, decision, BESIDE * spacing.spread)

    objective = Objective(gain, expectation, worth, worth, space, groups)
    if not gain.regret:
        return objective
    return objective._replace(term=Regret(objective, estimator, tried))


def with_slope(value: Curve, space: Space, decision: Array, away: Array) -> Array:
    """The mean value of decisions on both sides of this one; its slope is their difference.

    A decision with parts is moved one part after the other.
    """
    fixed, number = jax.lax.stop_gradient(decision), len(space.parts) if space.axes else 1
    means, moved = [], jnp.zeros_like(away)
    for part in range(number):
        here = (part,) if space.axes else ()
        up, down = (space.inside(fixed.at[here].add(side * away)) for side in (1, -1))
        high, low = value(up), value(down)
        gap = (up - down)[here]
        slope = jnp.where(gap > 0, (high - low) / jnp.where(gap > 0, gap, 1.0), 0.0)
        means.append((high + low) / 2)
        moved += jax.lax.stop_gradient(slope) * (decision - fixed)[here]
    return sum(means[1:], means[0]) / number + moved


class BestThere(NamedTuple):
    """The best decision at one draw of θ."""

    grow: PerInstance
    """Where it lies on the line on which the mass of the outcome lies evenly."""
    bend: PerInstance
    """How fast the slope of the utility term falls there."""


@final
@dataclass(frozen=True, eq=False)
class Regret:
    """log ũ(θ, h) - max over h' of log ũ(θ, h'), for one draw of θ."""

    objective: Objective
    estimator: Estimator | None
    tried: UtilityTerm
    """log ũ(θ, h), with no slope by h."""
    known: BestThere | None = None

    def among(self, key: Key, outcomes: Outcome, weight: Array, decision: Array) -> "Regret":
        """The term for these draws of θ, along a leading axis, in which these cases count."""
        here = replace(self, objective=self.objective.counting(weight))
        expectation, space = here.objective.expectation, here.objective.space
        search = plan_search(
            space, here.objective.groups, convex=False, responds=responds(outcomes)
        )
        if responds(outcomes) or not search.by_table:
            return here
        fixed = jax.lax.stop_gradient((outcomes, decision))
        first, now = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], fixed[0]), fixed[1]
        spacing = expectation.spacing(first)
        if spacing is None:
            return here
        best = here._best_by_table(key, first, now)
        away = spacing.spread / 2
        high, middle, low = (
            here.tried(key, first, space.inside(best + side * away)) for side in (1, 0, -1)
        )
        bend = jnp.maximum((2 * middle - high - low) / jnp.square(away), 0.0)
        return replace(here, known=jax.lax.stop_gradient(BestThere(spacing.inward(best), bend)))

    def __call__(self, key: Key, outcome: Outcome, decision: Array) -> Array:
        gain, expectation, worth, _, space, groups, *_ = self.objective
        alone = not groups.are_shared
        if self.estimator is None and alone and space.is_unlimited and not responds(outcome):
            with suppress(NoClosedForm):
                return gain.regret_term(expectation)(key, outcome, space.unpack(decision))
        if self.known is not None:
            gap = worth(key, outcome, decision) - self._most(self.known, key, outcome)
            return gap - jnp.maximum(jax.lax.stop_gradient(gap), 0.0)
        fixed = jax.lax.stop_gradient((key, outcome, decision))
        against = jax.lax.stop_gradient(self._best(*fixed))
        gap = worth(key, outcome, decision) - worth(key, outcome, against)
        if groups.are_shared:  # what is best for all need not be so for each
            return gap
        # A table may take a decision for better that is worse by a hair: slopes stay.
        return gap - jnp.maximum(jax.lax.stop_gradient(gap), 0.0)

    def _most(self, known: BestThere, key: Key, outcome: Distribution) -> Array:
        """The largest worth for this θ, where it is known for another one."""
        spacing, space = self.objective.expectation.spacing(outcome), self.objective.space
        assert spacing is not None
        place, _ = spacing.outward(known.grow)
        if outcome.support.is_discrete or not space.is_smooth:
            counts = jnp.floor(place), jnp.ceil(place)
            return jnp.maximum(*(self.tried(key, outcome, space.inside(h)) for h in counts))
        away = BESIDE * spacing.spread
        up, down = (space.inside(place + side * away) for side in (1, -1))
        free = (up - down > 1.9 * away) & (known.bend > 0)

        def both(key: Key) -> tuple[Array, Array]:
            """The mean beside the place, and the slope there."""
            high, low = (self.tried(key, outcome, decision) for decision in (up, down))
            return (high + low) / 2, (high - low) / jnp.where(free, up - down, 1.0)

        mean, slope = both(key)
        # By points of its own: the square of one slope would have the variance of it as a bias.
        _, other = both(jax.random.fold_in(key, 1))
        step = jax.lax.stop_gradient(other) / jnp.where(free, known.bend, 1.0)
        step = jnp.where(free, jnp.clip(step, -spacing.spread, spacing.spread), 0.0)
        return mean + slope * step - known.bend * jnp.square(step) / 2

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
