"""Every choice can be one of the user's own: all of them are defined in this file alone."""

import inspect
from dataclasses import dataclass, fields, replace
from itertools import chain, combinations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats as scipy_stats

import stakes
from stakes.decisions import DecisionTask, best_decision, numerical_decision, objective_of
from stakes.expectation import ByPoints, Mixture, Rule, stats
from stakes.fitting import FitSettings, Info, State, Step, ascend, bound, start
from stakes.losses import AnyLoss
from stakes.port import rows_of_params
from stakes.protocols import (
    Expectation,
    Gain,
    Loss,
    Objective,
    PositiveUtility,
    Predicted,
    Space,
    UtilityTerm,
)
from stakes.study import prepare

KEY = jax.random.key(0)
Y = np.array([1.0, 2.0, 4.0, 5.0, 3.5])


# A loss that knows its own expectation and best decision ---------------------------------------


@dataclass(frozen=True)
class Stake:
    """weight·(h-y)²; minimised by the mean."""

    weight: float

    def __call__(self, outcome, decision):
        return self.weight * jnp.square(decision - outcome)

    def expected(self, predicted: Predicted, decision):
        return self.weight * (predicted.variance() + jnp.square(predicted.mean() - decision))

    def exact_decision(self, predicted: Predicted):
        return predicted.mean()


# What closed forms ask of a distribution -------------------------------------------------------


class Peaked(dist.Laplace):
    """A distribution that the library knows nothing of."""


@stats.tails.register
def _(outcome: Peaked, decision, above: float, below: float):
    away = decision - outcome.loc
    beyond = outcome.scale / 2 * jnp.exp(-jnp.abs(away) / outcome.scale)
    return above * (beyond + jnp.maximum(-away, 0)) + below * (beyond + jnp.maximum(away, 0))


# An expectation, by points and weights ---------------------------------------------------------


@dataclass(frozen=True)
class GaussHermite(ByPoints):
    """Gauss-Hermite quadrature of a normal outcome."""

    size: int = 20

    def objection(self, outcome, gain: Gain, decision) -> str | None:
        return None if type(outcome) is dist.Normal else "it supports normal outcomes only"

    def rule(self, key, outcome, decision) -> Rule:
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.size)
        shape = jnp.broadcast_shapes(outcome.batch_shape, jnp.shape(decision))
        column = (-1, *(1 for _ in shape))
        points = outcome.loc + outcome.scale * jnp.asarray(nodes).reshape(column)
        log_weights = jnp.log(jnp.asarray(weights / weights.sum())).reshape(column)
        return Rule(*jnp.broadcast_arrays(points, log_weights + jnp.zeros(shape)))


# A transform from loss to gain -----------------------------------------------------------------


@dataclass(frozen=True)
class Reciprocal:
    """u = M / (M + ℓ), with M the mean of plain VI's losses."""

    scale: float | None = None

    def at(self, scale: float) -> "Reciprocal":
        return replace(self, scale=scale)

    def fitted(self, losses: np.ndarray) -> "Reciprocal":
        return self if self.scale is not None else self.at(float(losses.mean()))

    def __call__(self, loss: Loss, scale) -> stakes.Utility:
        fn = lambda outcome, decision: scale / (scale + loss(outcome, decision))  # noqa: E731
        return stakes.Utility(fn, regret=False)


# An estimator of log E u -----------------------------------------------------------------------


@dataclass(frozen=True)
class Halfway:
    """Between Jensen's bound and the exact term."""

    def term(self, utility: PositiveUtility, expectation: Expectation) -> UtilityTerm:
        terms = [each.term(utility, expectation) for each in (stakes.Nested(), stakes.Jensen())]
        return lambda key, outcome, decision: sum(t(key, outcome, decision) for t in terms) / 2


# A decision rule for EM ------------------------------------------------------------------------


@dataclass(frozen=True)
class Cautious:
    """The mean less a margin, whatever the gain."""

    margin: float = 7.0

    def objection(self, gain: Gain) -> str | None:
        return None if self.margin > 0 else "its margin is not above zero"

    def decide(self, objective: Objective, key, outcomes, now):
        return jnp.broadcast_to(Mixture(outcomes).mean() - self.margin, now.shape)


# A method --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settled:
    """Ascend in the variational parameters, with the decisions of plain VI kept as they are."""

    def objection(self, gain: Gain, space: Space) -> str | None:
        return None

    def init(self, params, decisions, settings: FitSettings) -> State:
        variables = {"params": params, "decisions": decisions}
        return start(variables, params, settings.transformation())

    def step(self, objective: Objective, settings: FitSettings) -> Step:
        optimizer, draws = settings.transformation(), settings.draws

        def step(approximation, state: State, key, batch) -> tuple[State, Info]:
            params, decisions = state.variables["params"], state.variables["decisions"]
            params, state, info = ascend(
                optimizer,
                lambda at: bound(approximation, objective.term, draws, key, batch, at, decisions),
                params,
                rows_of_params(approximation, params, batch),
                state,
            )
            return state._replace(variables={"params": params, "decisions": decisions}), info

        return step


# End to end ------------------------------------------------------------------------------------


def normal_mean(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("case", len(Y)):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def peaked(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("case", len(Y)):
        numpyro.sample("y", Peaked(mean, 1.0), obs=y)


def calibrate(loss, model=normal_mean, **options) -> stakes.Calibration:
    problem = stakes.Problem(model, outcome="y", loss=loss)
    return stakes.calibrate(KEY, problem, {"y": Y}, steps=400, draws=32, **options)


def test_a_loss_and_an_expectation_of_ones_own_calibrate_as_those_of_the_library() -> None:
    """Gauss-Hermite sums are exact for a parabola, and so are closed forms."""
    own = calibrate(Stake(1.0), expectation=GaussHermite())
    assert own.expectation == GaussHermite()
    library = calibrate(stakes.Squared())
    assert library.expectation == stakes.ClosedForm()
    np.testing.assert_allclose(own.calibrated.bound, library.calibrated.bound, rtol=1e-3)
    np.testing.assert_allclose(own.decisions, library.decisions, rtol=1e-4)


def test_a_loss_that_knows_its_expectation_is_taken_in_closed_form() -> None:
    result = calibrate(Stake(3.0), method=stakes.EM())
    assert result.expectation == stakes.ClosedForm()
    assert stakes.EM().rule(stakes.Linearized()(Stake(3.0), 1.0)) == stakes.BayesDecisions()
    np.testing.assert_allclose(result.decisions, Y.sum() / (len(Y) + 0.01), atol=0.05)


def test_a_distribution_with_statistics_of_ones_own_gets_a_closed_form() -> None:
    result = calibrate(stakes.Tilted(0.9), model=peaked)
    assert result.expectation == stakes.ClosedForm()
    above = float(result.decisions[0]) - float(result.posterior()["mean"].mean())
    # The 0.9-quantile of a Laplace is 1.61 above its mean; the posterior adds a little spread.
    assert 1.5 < above < 2.0
    outcome = Peaked(0.5, 2.0)
    found = stakes.ClosedForm().expected(None, outcome, stakes.Tilted(0.9), jnp.array(1.2))
    twin = scipy_stats.laplace(0.5, 2.0)
    exact = twin.expect(lambda y: max(0.9 * (y - 1.2), 0.1 * (1.2 - y)), limit=500)
    assert float(found) == pytest.approx(exact, rel=1e-4)


def test_transform_estimator_and_decision_rule_of_ones_own_work_together() -> None:
    result = calibrate(
        Stake(1.0),
        transform=Reciprocal(),
        estimator=Halfway(),
        method=stakes.EM(m_step=Cautious(), draws=20),
    )
    losses = result.on_fit.observations.costs(result.problem.task, result.vi_decisions.values)
    assert result.scale == pytest.approx(losses.mean(), rel=1e-6)
    assert np.isfinite(result.calibrated.bound).all()
    # The rule sets the decisions of the fit; those of the result are best for the loss.
    margin = result.decisions.values - np.asarray(result.calibrated.variables["decisions"])
    np.testing.assert_allclose(margin, 7.0, atol=0.5)


def test_a_method_of_ones_own_brings_its_step_to_the_loop() -> None:
    result = calibrate(stakes.Squared(), method=Settled())
    assert result.plan.method == Settled()
    np.testing.assert_array_equal(
        result.calibrated.variables["decisions"], result.vi_decisions.values
    )
    moved = np.asarray(result.calibrated.params["mean_auto_scale"])
    assert np.abs(moved - np.asarray(result.vi.params["mean_auto_scale"])) > 0.1


def powerset(names):
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


QUESTIONS = {
    "expected": lambda self, predicted, h: predicted.variance() + (predicted.mean() - h) ** 2,
    "log_expected_utility": lambda self, predicted, h, scale: predicted.log_kernel(h, scale),
    "exact_decision": lambda self, predicted: predicted.mean(),
    "bayes_decision": lambda self, draws: draws.mean(axis=0),
}


def square_that_knows(*questions: str) -> Loss:
    """The squared loss, with some of what it may know of itself."""
    body = {name: QUESTIONS[name] for name in questions}
    body["__call__"] = lambda self, outcome, decision: jnp.square(outcome - decision)
    return type("Square", (), body)()


@pytest.mark.slow
@pytest.mark.parametrize(
    "questions", list(powerset(QUESTIONS)), ids=lambda q: "+".join(q) or "none"
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transform": stakes.Exponential()},
        {"transform": stakes.Exponential(), "estimator": stakes.Jensen()},
        {"method": stakes.EM(draws=4)},
    ],
    ids=["linearized", "exponential", "jensen", "em"],
)
def test_a_loss_may_know_any_part_of_itself(questions, options) -> None:
    """What it leaves out is found before the fits, not in the middle of them."""
    loss = square_that_knows(*questions)
    plan = prepare(
        KEY,
        stakes.Problem(normal_mean, outcome="y", loss=loss),
        {"y": Y},
        stakes.Options(draws=1, steps=1, expectation=None, **options),
    )
    outcomes = jax.vmap(dist.Normal)(jnp.array([[2.0], [4.0]]), jnp.ones((2, 1)))
    decide = jax.jit(
        lambda: best_decision(plan.problem.task, plan.expectation, KEY, outcomes, jnp.ones(1)),
        compiler_options={"xla_backend_optimization_level": 0},
    )
    np.testing.assert_allclose(decide(), 3.0, atol=0.05)
    # A step is traced, not compiled: that is where a question without an answer would show.
    step, state = plan.step(1.0), plan.state(plan.approximation.start, jnp.ones(len(Y)))
    jax.eval_shape(lambda: step(plan.approximation, state, KEY, {}))


@pytest.mark.slow
def test_a_decision_that_the_loss_turns_out_not_to_know_is_searched_for() -> None:
    def refuse(self, predicted):
        raise stakes.NoClosedForm("not for this outcome")

    loss = type(
        "Square", (), {"__call__": lambda self, y, h: (y - h) ** 2, "exact_decision": refuse}
    )
    outcomes = jax.vmap(dist.Normal)(jnp.array([[2.0], [4.0]]), jnp.ones((2, 1)))
    gain = stakes.Linearized()(loss(), 1.0)
    objective = objective_of(gain, stakes.Quadrature())
    found = stakes.EM().rule(gain).decide(objective, KEY, outcomes, jnp.ones(1))
    np.testing.assert_allclose(found, 3.0, atol=0.05)


def test_an_expectation_that_sums_over_instances_is_refused() -> None:
    """It would broadcast, and count each instance as often as there are instances."""
    loss = type(
        "Summed",
        (),
        {
            "__call__": lambda self, outcome, decision: jnp.square(outcome - decision),
            "expected": lambda self, predicted, h: jnp.sum((predicted.mean() - h) ** 2),
            "exact_decision": lambda self, predicted: predicted.mean(),
        },
    )
    with pytest.raises(stakes.InputError, match=r"utility term.*shape \(5,\); it has shape \(\)"):
        calibrate(loss())
    outcomes = jax.vmap(dist.Normal)(jnp.ones((2, 3)), jnp.ones((2, 3)))
    task = DecisionTask(AnyLoss(loss()))
    with pytest.raises(stakes.InputError, match=r"expected cost by .*shape \(3,\)"):
        jax.eval_shape(
            lambda: numerical_decision(task, stakes.ClosedForm(), KEY, outcomes, jnp.ones(3))
        )


def test_a_rule_that_decides_once_for_all_is_refused() -> None:
    @dataclass(frozen=True)
    class Once:
        def objection(self, gain): ...
        def decide(self, objective, key, outcomes, now):
            return jnp.zeros(())

    with pytest.raises(stakes.InputError, match=r"decisions of `.*Once.*shape \(5,\)"):
        stakes.calibrate(
            KEY,
            stakes.Problem(normal_mean, outcome="y", loss=stakes.Squared()),
            {"y": Y},
            method=stakes.EM(m_step=Once()),
            steps=2,
            draws=1,
        )


def test_choices_of_ones_own_object_by_name() -> None:
    with pytest.raises(stakes.InputError, match=r"expectation=GaussHermite.*normal outcomes only"):
        calibrate(stakes.Tilted(0.9), model=peaked, expectation=GaussHermite())
    with pytest.raises(stakes.InputError, match=r"m_step=Cautious\(margin=-1\).*not above zero"):
        calibrate(stakes.Squared(), method=stakes.EM(m_step=Cautious(margin=-1)))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("transform", stakes.Linearized),
        ("transform", 0.9),
        ("method", stakes.Joint),
        ("method", "em"),
        ("expectation", "quadrature"),
        ("estimator", stakes.Nested),
    ],
)
def test_what_does_not_answer_is_no_choice(option: str, value: object) -> None:
    with pytest.raises(stakes.InputError, match=f"`{option}=` must be .*; got "):
        calibrate(stakes.Squared(), **{option: value})


def test_a_choice_that_lacks_an_answer_is_told_which() -> None:
    class Half:
        def expected(self, key, outcome, loss, decision): ...

    with pytest.raises(stakes.InputError, match=r"protocol `Expectation`.*lacks.*'log_expected'"):
        stakes.Options(expectation=Half())
    with pytest.raises(TypeError, match="abstract"):
        type("Forgetful", (Expectation,), {})()


def test_a_choice_that_cannot_be_hashed_is_refused_before_any_fit() -> None:
    @dataclass
    class Mutable(ByPoints):
        def objection(self, outcome, gain, decision): ...
        def rule(self, key, outcome, decision): ...

    with pytest.raises(stakes.InputError, match=r"`expectation=` must be hashable.*frozen=True"):
        stakes.Options(expectation=Mutable())


def test_a_transform_whose_gain_lacks_an_answer_is_told_which() -> None:
    @dataclass(frozen=True)
    class Bare:
        scale: float = 1.0

        def at(self, scale): ...
        def fitted(self, losses): ...
        def __call__(self, loss, scale):
            return Halved(loss)

    @dataclass(frozen=True)
    class Halved:
        loss: Loss

        def term(self, expectation, estimator=None): ...

    problem = stakes.Problem(normal_mean, outcome="y", loss=stakes.Squared())
    options = stakes.Options(transform=Bare())
    match = r"What `transform=.*Bare.* returns must be .*protocol `Gain`.*lacks.*'regret'"
    with pytest.raises(stakes.InputError, match=match):
        prepare(KEY, problem, {"y": Y}, options)


def test_a_loss_that_cannot_be_hashed_is_refused() -> None:
    @dataclass
    class Mutable:
        def __call__(self, outcome, decision): ...

    with pytest.raises(stakes.InputError, match=r"`Problem\(loss=...\)` must be hashable"):
        stakes.Problem(normal_mean, outcome="y", loss=Mutable())


@pytest.mark.parametrize("m_step", ["bayes", stakes.BayesDecisions])
def test_an_m_step_that_cannot_decide_is_refused(m_step: object) -> None:
    with pytest.raises(stakes.InputError, match=r"`EM\(m_step=...\)` must be `BayesDecisions\(\)`"):
        stakes.EM(m_step=m_step)


def test_options_are_given_as_one_value_or_one_by_one() -> None:
    options = stakes.Options(steps=2, draws=1)
    problem = stakes.Problem(normal_mean, outcome="y", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match=r"`calibrate\(options=...\)`.*leave those out"):
        stakes.calibrate(KEY, problem, {"y": Y}, options=options, steps=3)
    assert stakes.calibrate(KEY, problem, {"y": Y}, options=options).vi.steps == 2


def test_calibrate_takes_what_options_holds() -> None:
    """One list of options: the keywords of `calibrate` are the fields of `Options`."""
    said = inspect.signature(stakes.calibrate).parameters
    mine = {"key", "problem", "data", "options", "coords", "progress", "journal", "on"}
    keywords = {name: each.default for name, each in said.items() if name not in mine}
    assert keywords == {each.name: each.default for each in fields(stakes.Options)}
