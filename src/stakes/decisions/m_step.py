"""Decision rules: how an M-step of EM sets the decisions."""

from contextlib import suppress
from dataclasses import dataclass
from typing import final

from stakes._types import Array, Distribution, Key
from stakes.decisions.coarse import term_decision
from stakes.decisions.known import beside, is_any_number, known_decision
from stakes.decisions.risks import risk_of
from stakes.errors import NoClosedForm
from stakes.losses import AnyLoss
from stakes.protocols import Gain, Objective
from stakes.spaces import Shared, Vector, seen


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
        if gain.loss is None or not AnyLoss(gain.loss).knows_decision:
            return "it needs a loss that knows its Bayes decision, such as `Tilted(q)`"
        return None

    def decide(self, objective: Objective, key: Key, outcomes: Distribution, now: Array) -> Array:
        assert objective.gain.loss is not None
        loss, expectation = AnyLoss(objective.gain.loss), objective.expectation
        space = objective.space

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return -loss.risk(expectation, key, outcome, seen(space, decision))

        if isinstance(space, Vector) and is_any_number(space):
            with suppress(NoClosedForm):
                return known_decision(loss, expectation, outcomes, now[0], space)
        elif not isinstance(space, Shared | Vector) and (is_any_number(space) or loss.convex):
            with suppress(NoClosedForm):
                best = known_decision(loss, expectation, outcomes, now)
                return beside(risk_of(loss, expectation, key, outcomes, now), space, best)
        return term_decision(term, key, outcomes, now, held=expectation.held, space=space)


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
        return None

    def decide(self, objective: Objective, key: Key, outcomes: Distribution, now: Array) -> Array:
        held = objective.expectation.held
        return term_decision(objective.worth, key, outcomes, now, held=held, space=objective.space)
