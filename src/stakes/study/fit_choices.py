"""The choice of an expectation, and a trial of loss and method, before any fit.

A loss that fails on the user's outcomes, a method that cannot follow it, or an expectation without
a formula for it would otherwise show after minutes of fitting, or as a silent nan. So all of them
are tried once, on the observed outcomes and on draws from where the fit starts.
"""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes import expectation as expectations
from stakes._types import Array, Distribution, Key
from stakes.bridge import NumPyroApproximation, Predictors
from stakes.decisions import DecisionTask
from stakes.errors import InputError, warn
from stakes.losses import AnyLoss
from stakes.port import columns_in, sweep
from stakes.predicting import FittedPosterior
from stakes.problem import Problem
from stakes.protocols import (
    Criterion,
    Estimator,
    Expectation,
    Gain,
    Loss,
    Predicted,
    Transform,
    UtilityTerm,
)
from stakes.study.options import Options


def _check_classes(problem: Problem, outcome: Distribution) -> None:
    """Refuse a loss for classes that the outcome does not have, such as a table of costs."""
    if problem.loss is None:
        return
    loss, discrete = AnyLoss(problem.loss), outcome.support.is_discrete
    reason = loss.objection(is_discrete=discrete, classes=expectations.stats.few_values(outcome))
    if reason is not None:
        raise InputError(
            f"`loss={loss.title}`: the outcome {problem.outcome!r}, {type(outcome).__name__}, "
            f"{reason}."
        )


def choose_expectation(
    problem: Problem,
    transform: Transform | None,
    options: Options,
    approximation: NumPyroApproximation,
    key: Key,
) -> tuple[Expectation, int]:
    """Return the expectation, and how many draws of θ a step usually takes with it.

    Args:
        problem: model, outcome, loss or utility.
        transform: from loss to utility; None for a problem given by a utility.
        options: with the expectation and the method that the user has chosen, if any.
        approximation: model and guide, where the fit starts.
        key: for one draw of the latents and the outcomes.
    """
    posterior = FittedPosterior(approximation, approximation.start)
    predictor = Predictors(problem, approximation).on()
    outcome, weight, drawn = predicting.one_outcome(posterior, predictor, key)
    seen = predicting.observations(posterior, predictor)
    problem.task.check_columns(predictor.columns(problem.task.needs))
    # What is predicted is that of the first batch, what is observed that of all cases.
    batch = next(sweep(predictor.trace.subsamples))
    here = columns_in(predictor, problem.task.needs, batch)
    task = problem.task.at(here)
    if seen is None:
        _try_cost(task, drawn, task, drawn)
    else:
        _try_cost(*seen.to_try(problem.task), task, drawn)
    _check_classes(problem, outcome)
    gain = problem.gain(transform, 1.0, here)
    where = f"What `transform={transform}` returns"
    checks.choice(where, gain, Gain, "a utility or a scaled loss", hashable=False)
    method = options.method_for(problem)
    reason = method.objection(gain, problem.space)
    if reason is not None:
        raise InputError(f"`method={method}` does not fit: {reason}.")
    asked = _AllAsked(gain, options.estimator, task.criterion)
    expectation, parts = options.expectation, task.space.axes
    like = task.space.unpack(jnp.broadcast_to(weight, (*parts, *weight.shape)))
    if expectation is None:
        expectation = expectations.choose(outcome, asked, like)
        if isinstance(expectation, expectations.ScoreFunction):
            warn(
                f"The outcome {problem.outcome!r}, {type(outcome).__name__}, can only be drawn, "
                f"and gradients do not pass through its draws. The calibrated fit estimates them "
                f"by the score function, which is noisy: look at the trace of the bound, and give "
                f"more draws, `expectation=ScoreFunction(draws=...)`, if it does not settle."
            )
    else:
        expectations.check(expectation, outcome, asked, like)
    asked.term(expectation)  # says what does not fit
    if problem.about_latent:
        _check_slope(problem, task, drawn)
    rows = int(np.prod(approximation.instances.shape))
    return expectation, usual_draws(expectation, outcome, rows)


def usual_draws(expectation: Expectation, outcome: Distribution, rows: int) -> int:
    """Return how many draws of θ a step takes where the user does not say.

    More draws make a step less noisy. For small problems whose expectations are closed forms they
    cost next to nothing; but closed forms for counts are long, so that fewer rows count as small
    there.
    """
    if not expectation.cost.free:
        return 10
    is_count = outcome.support.is_discrete and expectations.stats.few_values(outcome) is None
    return 32 if rows <= (100 if is_count else 1000) else 10


def _check_slope(problem: Problem, task: DecisionTask, drawn: np.ndarray) -> None:
    """Refuse a cost in steps for decisions about a latent.

    The gradient of a latent's expected cost comes from its draws, where a step function has no
    slope. Nine values up to one away from each draw show whether the cost has a slope at all.
    """
    decision = task.space.unpack(task.everywhere(drawn, jnp.median(drawn)))
    tried = drawn + jnp.linspace(-1, 1, 9).reshape(-1, *(1 for _ in drawn.shape))
    slope = jax.grad(lambda y: jnp.sum(task.criterion.cost(y, decision)))(tried)
    if not bool(jnp.any(slope != 0)):
        raise InputError(
            f"Under `{task.criterion.title}`, the cost of {problem.outcome!r}, which is latent, "
            f"rises in steps, and a fit has no slope to follow. Use a loss that rises gradually, "
            f"such as `Huber(...)`."
        )


def _try_cost(
    of_seen: DecisionTask, seen: np.ndarray, task: DecisionTask, drawn: np.ndarray
) -> None:
    """Refuse a loss or utility that fails on observed outcomes; warn if it fails on likely ones.

    Args:
        of_seen: decisions and costs of the cases that were observed.
        seen: their outcomes.
        task: decisions and costs of the first batch.
        drawn: outcomes that the guide's start predicts there; they may be far from the observed
            ones.
    """
    middle, width = np.median(seen).astype(seen.dtype), seen.max() - seen.min()
    of_seen.check_observed(seen)
    # What is drawn before a fit may be anywhere.
    likely = np.where(np.abs(drawn - middle) <= width, drawn, middle)
    fault = task.cost_fault(likely, task.everywhere(likely, middle))
    if fault is not None:
        warn(f"At an outcome that was not observed, but may be predicted: {fault}")


@final
@dataclass(frozen=True)
class _AllAsked:
    """All that will be asked of an expectation: the utility term of the fit, and the risk of
    decisions.

    It stands in for the gain while an expectation is chosen, so that the choice can do both.
    """

    gain: Gain
    estimator: Estimator | None
    criterion: Criterion

    @property
    def loss(self) -> Loss | None:
        return self.gain.loss

    @property
    def bayes_is_best(self) -> bool:
        return self.gain.bayes_is_best

    @property
    def regret(self) -> bool:
        return self.gain.regret

    def regret_term(self, expectation: Expectation) -> UtilityTerm:
        return self.gain.regret_term(expectation)

    def exact_decision(self, predicted: Predicted) -> Array:
        return self.gain.exact_decision(predicted)

    def term(self, expectation: Expectation, estimator: Estimator | None = None) -> UtilityTerm:
        """Return the utility term; where it is computed, the risk is, too."""
        term = self.gain.term(expectation, self.estimator)

        def both(key: Key, outcome: Distribution, decision: Array) -> Array:
            self.criterion.risk(expectation, key, outcome, decision)
            return term(key, outcome, decision)

        return both
