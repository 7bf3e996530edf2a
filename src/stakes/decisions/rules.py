"""Decision rules: how an M-step of EM sets decisions, and coarse searches for steps of a fit.

An M-step has to improve on the decisions of the step before and need not find the best: the bound
still rises, as in generalised EM (Neal and Hinton, A View of the EM Algorithm that Justifies
Incremental, Sparse, and other Variants, 1998).
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from stakes._types import Array, Distribution, Key
from stakes.decisions.minimise import (
    At,
    Curve,
    all_at_once,
    best_action,
    better,
    by_parabolas,
    evenly,
    nearby_counts,
)
from stakes.decisions.risks import count_of, draws_of, each_draw, risk_of, spread_of
from stakes.decisions.search import (
    best_beside,
    best_parts,
    between_limits,
    formula_decision,
    line_of_counts,
    plan_search,
)
from stakes.decisions.task import DecisionTask
from stakes.errors import NoClosedForm
from stakes.losses import AnyLoss
from stakes.port import Outcome, responds
from stakes.protocols import Gain, Groups, Objective, Space, Tabled, UtilityTerm
from stakes.spaces import ALONE, Real

# Places over the range of the outcome: few, since the next M-step goes on from the best.
PLACES = 7
# Draws of outcomes, whose range decisions are searched in.
DRAWS = 16
# How often an M-step goes through the parts of a decision.
SWEEPS = 3
REAL = Real()


def term_decision(
    term: UtilityTerm,
    key: Key,
    outcomes: Outcome,
    now: Array,
    *,
    held: int,
    space: Space = REAL,
    groups: Groups = ALONE,
) -> Array:
    """A decision at which the utility term U(λ, h) is at least as large as now, for an M-step.

    A coarse search, since the term will have changed by the next M-step: the best of the current
    decision and a few places over the range of the outcome, refined. `held` is how many values
    of y the term's expectation holds at once.
    """
    term_key, range_key = jax.random.split(key)
    search = plan_search(space, groups, convex=False, responds=responds(outcomes))

    def shortfall(decision: Array) -> Array:
        decision = space.inside(decision)
        one = lambda key, outcome: -term(key, outcome, decision)  # noqa: E731
        mean = each_draw(one, term_key, outcomes, held * now.size).mean(axis=0)
        return groups.over(mean, "sum")

    if search.way == "parts":
        drawn = draws_of(range_key, outcomes, now.shape[1:], -(-2 * DRAWS // count_of(outcomes)))
        return best_parts(shortfall, space, drawn, now, sweeps=SWEEPS).astype(now.dtype)
    if space.actions is not None:
        return best_action(shortfall, space.actions, now).astype(now.dtype)
    if responds(outcomes):
        limits = between_limits(space, now, 2 * PLACES)
        places = jnp.sort(jnp.concatenate([now[None], limits]), axis=0)
        best = by_parabolas(shortfall, places, 5).place
        best = nearby_counts(shortfall, best) if space.is_whole else best
        return space.inside(best).astype(now.dtype)
    drawn = draws_of(range_key, outcomes, now.shape, -(-DRAWS // count_of(outcomes)))
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    # Rare outcomes may be missing from the draws and still matter.
    spacing = jnp.maximum((high - low) / (PLACES - 1), spread_of(outcomes, now) / 2)
    low, high = groups.over(low, "least"), groups.over(high, "most")
    now, spacing = groups.mean(now), groups.over(spacing, "most")
    grid = space.inside(evenly(low - spacing, high + spacing, PLACES + 2))
    # From M-step to M-step the way may lead beyond all outcomes.
    now = now.astype(grid.dtype)
    around = space.inside(jnp.stack([now - spacing, now, now + spacing]))
    tried = better(by_parabolas(shortfall, grid, 5), by_parabolas(shortfall, around, 5))
    best = better(tried, At(now, shortfall(now))).place
    if (line := line_of_counts(outcomes, space)) is not None:
        best = nearby_counts(shortfall, best, line=line)
    return space.inside(best).astype(now.dtype)


def tabled_decision(shortfall: Curve, table: Tabled, now: Array, *, counts: bool) -> Array:
    """A decision with less or the same shortfall as now, by a coarse search in a table.

    Where the outcome is a count, the best may be a count itself, at which a cost bends.
    """
    places = table.places()
    best = by_parabolas(shortfall, places, 3 if table.few else 5, all_at_once)
    best = better(best, At(now.astype(places.dtype), shortfall(now)))
    if not counts or table.few:
        return best.place.astype(now.dtype)
    return nearby_counts(shortfall, best.place, all_at_once).astype(now.dtype)


@final
@dataclass(frozen=True)
class BayesDecisions:
    """M-step: the Bayes decision of the loss, which maximises a linearized term.

    By a formula where loss and outcome have one; otherwise by a search as coarse as that of
    `NumericalDecisions`.

    Examples:
        >>> import stakes
        >>> gain = stakes.Linearized()(lambda outcome, decision: abs(outcome - decision), 1.0)
        >>> stakes.BayesDecisions().objection(gain)
        'it needs a loss that knows its Bayes decision, such as `Tilted(q)`'
    """

    def objection(self, gain: Gain) -> str | None:
        """Return that the loss does not know its Bayes decision, if so."""
        if gain.loss is None or not AnyLoss(gain.loss).knows_decision:
            return "it needs a loss that knows its Bayes decision, such as `Tilted(q)`"
        return None

    def decide(self, objective: Objective, key: Key, outcomes: Outcome, now: Array) -> Array:
        """Return decisions with the least expected loss under these draws of θ."""
        assert objective.gain.loss is not None
        loss, expectation = AnyLoss(objective.gain.loss), objective.expectation
        space, groups = objective.space, objective.groups
        search = plan_search(space, groups, convex=loss.convex, responds=responds(outcomes))
        if search.by_formula:
            like = now[0] if space.axes else now
            risk = risk_of(DecisionTask(loss, space), expectation, key, outcomes, like)
            with suppress(NoClosedForm):
                best = formula_decision(loss, expectation, outcomes, like, space)
                return best_beside(risk, space, best)

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return -loss.risk(expectation, key, outcome, space.unpack(decision))

        held = expectation.cost.points
        return term_decision(term, key, outcomes, now, held=held, space=space, groups=groups)


@final
@dataclass(frozen=True)
class NumericalDecisions:
    """M-step: maximise the utility term numerically, whatever the loss or utility.

    Examples:
        >>> import stakes
        >>> gain = stakes.Linearized()(lambda outcome, decision: abs(outcome - decision), 1.0)
        >>> stakes.NumericalDecisions().objection(gain) is None
        True
    """

    def objection(self, gain: Gain) -> str | None:
        """Return None: any gain can be maximised numerically."""
        return None

    def decide(self, objective: Objective, key: Key, outcomes: Outcome, now: Array) -> Array:
        """Return decisions at which the utility term is at least as large as now."""
        held, space, groups = objective.expectation.cost.points, objective.space, objective.groups
        return term_decision(
            objective.worth, key, outcomes, now, held=held, space=space, groups=groups
        )
