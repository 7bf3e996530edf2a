"""The methods: plain VI, joint optimisation of parameters and decisions, and EM.

The bound of a calibrated fit, ELBO(λ) + U(λ, h), is a function of variational parameters λ and
decisions h. `Joint` follows its gradient in both. `EM` maximises it in turn: a step in λ with h
held, then the best h for the draws of θ at hand, which needs no gradient in h and so works for
labels and whole numbers.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from stakes import checks
from stakes._types import Array, Batch, Key, Params
from stakes.decisions import BayesDecisions, NumericalDecisions
from stakes.errors import check_shape
from stakes.fitting.ascent import Chart, Outcomes, Trained, climb, draws_of, start
from stakes.fitting.settings import FitSettings
from stakes.fitting.step import Info, State, Step
from stakes.port import (
    Approximation,
    columns_in,
    params_in,
    rows_of_decisions,
    rows_of_params,
)
from stakes.protocols import DecisionRule, Gain, Groups, Objective, Space

# Draws of θ for an M-step that has no others.
OF_THEIR_OWN = 15
# Draws of θ to decide by: fewer leave out what is not known of θ, and bias decisions.
ENOUGH = 10


@final
@dataclass(frozen=True)
class VI:
    """Reparameterised gradient ascent on the ELBO."""

    def init(self, params: Params, settings: FitSettings) -> State:
        """Return the state to start from: parameters alone."""
        return start({"params": params}, params, settings.transformation())

    def step(self, settings: FitSettings) -> Step:
        """Return the step up the ELBO."""

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            params = state.variables["params"]
            rows = rows_of_params(approximation, params, batch)
            trained = Trained(params, rows, lambda part: (part, None))
            params, state, info, _ = climb(approximation, state, key, batch, settings, trained)
            return state._replace(variables={"params": params}), info

        return step


@final
@dataclass(frozen=True)
class Joint:
    """Gradient ascent on the bound over variational parameters and decisions together.

    Examples:
        >>> import stakes
        >>> gain = stakes.Linearized()(stakes.Squared(), 1.0)
        >>> stakes.Joint().objection(gain, stakes.Real()) is None
        True
    """

    def objection(self, gain: Gain, space: Space) -> str | None:
        """Return why decisions in this space cannot follow a gradient; None where they can."""
        if space.is_smooth:
            return None
        return (
            f"decisions in `{space!r}` cannot follow a gradient. Use `method=EM()`, or leave "
            f"`method` out"
        )

    def init(self, params: Params, decisions: Array, settings: FitSettings) -> State:
        """Return the state to start from: parameters and decisions, both trained."""
        variables = {"params": params, "decisions": decisions}
        return start(variables, variables, settings.transformation())

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        """Return the step up the bound, in both; decisions move where they have no limits."""
        parted = len(objective.space.axes)

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            here = objective.at(columns_in(approximation, objective.needs, batch))
            rows = {
                "params": rows_of_params(approximation, state.variables["params"], batch),
                "decisions": rows_of_decisions(approximation, batch, leading=parted),
            }
            trained = Trained(
                state.variables,
                rows,
                lambda part: (part["params"], part["decisions"]),
                _chart(here.space, here.groups),
            )
            variables, state, info, _ = climb(
                approximation, state, key, batch, settings, trained, here.term
            )
            return state._replace(variables=variables), info

        return step


def _chart(space: Space, groups: Groups) -> Chart:
    """Coordinates in which decisions have no limits."""
    return Chart(
        lambda here: {**here, "decisions": space.to_line(groups.gather(here["decisions"]))},
        lambda free: {**free, "decisions": groups.spread(space.from_line(free["decisions"]))},
    )


@final
@dataclass(frozen=True)
class EM:
    """Alternate between `every` steps in the variational parameters and best decisions.

    Args:
        m_step: how decisions are set: by default to the Bayes decision if the term is linearized
            and the loss has one, otherwise numerically.
        draws: of θ for each M-step. By default an M-step reuses those of its step, with the
            outcomes predicted there; its decisions are then used with other draws, when their rows
            come up next. It makes 15 draws of its own if M-steps are rare (`every` above one), if
            it has to run the model at other decisions, or if the step has fewer than ten.
        every: steps between two M-steps; each sets the decisions of the minibatch at hand.

    Examples:
        >>> import stakes
        >>> stakes.EM(draws=50).rule(stakes.Linearized()(stakes.Tilted(0.2), 1.0))
        BayesDecisions()
    """

    m_step: DecisionRule | None = None
    draws: int | None = None
    every: int = 1

    def __post_init__(self) -> None:
        if self.m_step is not None:
            known = "`BayesDecisions()` or `NumericalDecisions()`"
            checks.choice("`EM(m_step=...)`", self.m_step, DecisionRule, known)
        checks.assign(self, every=checks.whole("`EM(every=...)`", self.every))
        if self.draws is not None:
            checks.assign(self, draws=checks.whole("`EM(draws=...)`", self.draws))

    def rule(self, gain: Gain) -> DecisionRule:
        """The decision rule for this gain."""
        if self.m_step is not None:
            return self.m_step
        bayes = BayesDecisions()
        known = gain.bayes_is_best and bayes.objection(gain) is None
        return bayes if known else NumericalDecisions()

    def objection(self, gain: Gain, space: Space) -> str | None:
        """Return why the decision rule cannot handle this gain; None where it can."""
        rule = self.rule(gain)
        reason = rule.objection(gain)
        if reason is None:
            return None
        return f"with `m_step={rule}`, {reason}. Use `EM(m_step=NumericalDecisions())`"

    def init(self, params: Params, decisions: Array, settings: FitSettings) -> State:
        """Return the state to start from: parameters are trained, decisions are set."""
        variables = {"params": params, "decisions": decisions}
        return start(variables, params, settings.transformation())

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        """Return a step in the parameters, followed by an M-step where one is due.

        A decision keeps its old value if the new one is not finite: for some draws of θ, nothing
        is best.
        """
        parted = len(objective.space.axes)
        rule = self.rule(objective.gain)
        anew = self.draws is not None or self.every > 1 or settings.draws < ENOUGH

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            e_key, theta_key, y_key = jax.random.split(key, 3)
            params, decisions = state.variables["params"], state.variables["decisions"]
            at = rows_of_decisions(approximation, batch, leading=parted)
            here = at.gather(decisions)
            aims = objective.at(columns_in(approximation, objective.needs, batch))
            rows = rows_of_params(approximation, params, batch)
            trained = Trained(params, rows, lambda part: (part, here))
            params, state, info, outcomes = climb(
                approximation, state, e_key, batch, settings, trained, aims.term
            )

            def m_step() -> Array:
                each, weight = (
                    self.drawn(approximation, params, theta_key, batch, settings)
                    if anew or outcomes is None
                    else outcomes
                )
                best = rule.decide(aims.counting(weight), y_key, each, here)
                check_shape(f"The decisions of `{rule}`", best.shape, here.shape)
                return jnp.where(jnp.isfinite(best), best, here)

            due = state.taken % self.every == 0
            best = jax.lax.cond(due, m_step, lambda: here) if self.every > 1 else m_step()
            variables = {"params": params, "decisions": at.scatter(decisions, best)}
            return state._replace(variables=variables), info

        return step

    def drawn(
        self,
        approximation: Approximation,
        params: Params,
        key: Key,
        batch: Batch,
        settings: FitSettings,
    ) -> Outcomes:
        """Return the outcomes at draws of θ that are an M-step's own."""
        part, draws = params_in(approximation, params, batch), self.draws or OF_THEIR_OWN
        independent = settings.independent
        found, _ = draws_of(approximation, part, key, batch, draws, independent=independent)
        return Outcomes(found.outcome, found.weight[0])


@final
@dataclass(frozen=True)
class FreshDecisions:
    """EM that keeps no decisions: those of a minibatch are made before each step, and forgotten.

    For more rows than are ever held at once. Between two visits of a row, what is known of θ
    changes so much that its last decision is no better a start than none.
    """

    by: EM = EM()

    def objection(self, gain: Gain, space: Space) -> str | None:
        return self.by.objection(gain, space)

    def init(self, params: Params, decisions: Array, settings: FitSettings) -> State:
        return start({"params": params}, params, settings.transformation())

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        """Return a step in the parameters, with decisions made just before it.

        They are made by other draws of θ than those of the step: no draws should both choose
        decisions and judge them.
        """
        parts = objective.space.axes
        rule = self.by.rule(objective.gain)

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            e_key, theta_key, y_key = jax.random.split(key, 3)
            params = state.variables["params"]
            aims = objective.at(columns_in(approximation, objective.needs, batch))
            # Not those of the step to come: no draws should both choose decisions and judge them.
            each, weight = self.by.drawn(approximation, params, theta_key, batch, settings)
            none = aims.space.inside(jnp.zeros((*parts, *weight.shape), weight.dtype))
            best = rule.decide(aims.counting(weight), y_key, each, none)
            check_shape(f"The decisions of `{rule}`", best.shape, none.shape)
            rows = rows_of_params(approximation, params, batch)
            trained = Trained(params, rows, lambda part: (part, best))
            params, state, info, _ = climb(
                approximation, state, e_key, batch, settings, trained, aims.term
            )
            return state._replace(variables={"params": params}), info

        return step
