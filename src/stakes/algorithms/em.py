"""EM: ascend in the variational parameters, then set the decisions to their best."""

from dataclasses import dataclass
from typing import TypeAlias, final

import jax
import jax.numpy as jnp

from stakes import rows
from stakes.algorithms.ascent import ascend, bound, start
from stakes.approximation import Approximation
from stakes.decisions import bayes_decision, term_decision
from stakes.errors import InputError
from stakes.expectation import Expectation
from stakes.fitting import Fitting, Info, State, Step
from stakes.typing import Array, Batch, Distribution, Key, Params, SolvedLoss
from stakes.utilities import Gain, ScaledLoss
from stakes.utility_term import UtilityTerm


@final
@dataclass(frozen=True)
class BayesDecisions:
    """M-step: the Bayes decision of the loss; the maximiser where the term is linearized.

    >>> import stakes
    >>> stakes.EM(m_step=stakes.BayesDecisions())
    EM(m_step=BayesDecisions(), draws=30, every=1)
    """


@final
@dataclass(frozen=True)
class NumericalDecisions:
    """M-step: maximise the utility term numerically, whatever the loss or utility.

    >>> import stakes
    >>> stakes.EM(m_step=stakes.NumericalDecisions(), draws=100).draws
    100
    """


MStep: TypeAlias = BayesDecisions | NumericalDecisions


@final
@dataclass(frozen=True)
class EM:
    """Alternate between `every` steps in the variational parameters and best decisions.

    Args:
        m_step: how decisions are set. By default by the Bayes decision where the term is
            linearized and the loss has one, numerically otherwise.
        draws: of θ behind each M-step.
        every: steps between two M-steps; each sets the decisions of the minibatch at hand.

    >>> import stakes
    >>> stakes.EM(draws=50).draws
    50
    """

    m_step: MStep | None = None
    draws: int = 30
    every: int = 1

    def __post_init__(self) -> None:
        for name in ("draws", "every"):
            if getattr(self, name) < 1:
                raise InputError(f"`EM({name}=...)` must be at least 1; got {getattr(self, name)}.")

    def chosen(self, gain: Gain) -> MStep:
        solved = isinstance(getattr(gain, "loss", None), SolvedLoss)
        if isinstance(self.m_step, BayesDecisions) and not solved:
            raise InputError(
                "`EM(m_step=BayesDecisions())` needs a loss that knows its Bayes decision, such as "
                "`Tilted(q)`. Use `EM(m_step=NumericalDecisions())`."
            )
        if self.m_step is not None:
            return self.m_step
        linearized = isinstance(gain, ScaledLoss)
        return BayesDecisions() if linearized and solved else NumericalDecisions()

    def init(self, params: Params, decisions: Array, settings: Fitting) -> State:
        variables = {"params": params, "decisions": decisions}
        return start(variables, params, settings.transformation())

    def step(
        self, term: UtilityTerm, gain: Gain, expectation: Expectation, settings: Fitting
    ) -> Step:
        optimizer = settings.transformation()
        chosen, loss = self.chosen(gain), getattr(gain, "loss", None)

        def decide(key: Key, outcomes: Distribution, like: Array) -> Array:
            if isinstance(chosen, BayesDecisions) and isinstance(loss, SolvedLoss):
                return bayes_decision(loss, expectation, key, outcomes, like)
            return term_decision(term, key, outcomes, like)

        def step(
            approximation: Approximation, state: State, key: Key, batch: Batch
        ) -> tuple[State, Info]:
            e_key, theta_key, y_key = jax.random.split(key, 3)
            params, decisions = state.variables["params"], state.variables["decisions"]
            at = rows.of_decisions(approximation.instances, approximation.subsamples, batch)
            here = at.gather(decisions)
            params, state, info = ascend(
                optimizer,
                lambda part: bound(approximation, term, settings.draws, e_key, batch, part, here),
                params,
                rows.of_params(approximation, params, batch),
                state,
            )

            def m_step() -> Array:
                part = rows.params_in(approximation, params, batch)
                outcomes = jax.vmap(lambda key: approximation.draw(part, key, batch).outcome)(
                    jax.random.split(theta_key, self.draws)
                )
                best = decide(y_key, outcomes, here)
                return jnp.where(jnp.isfinite(best), best, here)

            due = state.taken % self.every == 0
            best = jax.lax.cond(due, m_step, lambda: here) if self.every > 1 else m_step()
            variables = {"params": params, "decisions": at.scatter(decisions, best)}
            return state._replace(variables=variables), info

        return step
