"""Each mistake has a message that says where, the rule, what came and the way out.

All of these but one are found before any fit: the optimiser handed in raises if it is started.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import autoguide

import stakes
from stakes import InputError, bridge
from stakes.study import prepare
from stakes.study.cases import check_decisions

KEY = jax.random.key(0)
X = np.array([0.0, 1.0, 2.0, 3.0])
Y = np.array([0.5, 1.5, 1.0, 4.0])
DATA = {"x": X, "y": Y}


def regression(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)


def with_local_latents(y: Any = None) -> None:
    with numpyro.plate("row", 6, subsample_size=2) as members:
        level = numpyro.sample("level", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(level, 1), obs=None if y is None else y[members])


def level_guide(y: Any = None) -> None:
    with numpyro.plate("row", 6, subsample_size=2):
        numpyro.sample("level", dist.Normal(numpyro.param("loc", 0.0), 0.1))


def with_outcome(outcome: Callable[[Any], dist.Distribution]) -> Callable[..., None]:
    def model(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", outcome(slope * x), obs=y)

    return model


POISSON = with_outcome(lambda level: dist.Poisson(jnp.exp(level)))


def slope_guide(**data: Any) -> None:
    """For all models with a slope alone; NumPyro takes seconds to set an autoguide up."""
    numpyro.sample("slope", dist.Normal(numpyro.param("loc", 0.0), 0.1))


def _no_fit(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("A fit was started before the mistake was found.")


def calibrate(problem: stakes.Problem, data: Any = DATA, **options: Any) -> stakes.Calibration:
    """Fails the test, rather than the fit, if it gets as far as starting one."""
    refuses = optax.GradientTransformation(_no_fit, _no_fit)
    return stakes.calibrate(KEY, problem, data, **{"optimizer": refuses, **options})


def problem(model: Callable[..., None] = regression, **options: Any) -> stakes.Problem:
    cost = {} if "loss" in options or "utility" in options else {"loss": stakes.Squared()}
    return stakes.Problem(model, **{"outcome": "y", "guide": slope_guide, **cost, **options})


# The problem -------------------------------------------------------------------------------


def test_an_outcome_that_is_neither_argument_nor_site_is_named() -> None:
    with pytest.raises(InputError, match=r"outcome='z'.*no sample site 'z'; it has 'slope', 'y'"):
        calibrate(problem(outcome="z"))


def test_an_outcome_that_is_no_site_is_named_with_the_sites_there_are() -> None:
    def misnamed(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("target", dist.Normal(slope * x, 1), obs=y)

    with pytest.raises(InputError, match=r"outcome='y'.*no sample site 'y'.*'slope', 'target'"):
        calibrate(problem(misnamed))


def test_an_outcome_that_is_never_observed_is_called_a_latent() -> None:
    def forgetful(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(slope * x, 1))

    with pytest.raises(InputError, match=r"outcome='y'.*names a latent.*Pass `obs=y`"):
        calibrate(problem(forgetful))


@pytest.mark.parametrize(
    ("costs", "came"),
    [
        ({"loss": None}, "neither"),
        ({"loss": stakes.Squared(), "utility": stakes.Utility(lambda y, h: y * 0 + 1)}, "both"),
    ],
)
def test_a_problem_takes_either_a_loss_or_a_utility(costs: dict[str, Any], came: str) -> None:
    with pytest.raises(InputError, match=f"either `loss=` or `utility=`; got {came}"):
        problem(**costs)


def test_a_loss_given_as_its_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"loss=.*such as `Tilted\(0.2\)`; got.*Squared"):
        problem(loss=stakes.Squared)


def test_a_bare_function_is_no_utility() -> None:
    with pytest.raises(InputError, match=r"utility=.*must be a `Utility\(fn\)`"):
        problem(utility=lambda y, h: jnp.exp(-((y - h) ** 2)))


def test_a_vector_outcome_is_refused_with_its_shape() -> None:
    def vectors(x: Any, y: Any = None) -> None:
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            loc = slope * jnp.stack([x, x], axis=-1)
            numpyro.sample("y", dist.MultivariateNormal(loc, jnp.eye(2)), obs=y)

    data = {"x": X, "y": np.stack([Y, Y], axis=-1)}
    with pytest.raises(
        InputError, match=r"outcome='y'.*MultivariateNormal.*shape \(2,\).*single numbers.*sites"
    ):
        calibrate(problem(vectors), data)


def test_a_discrete_latent_is_named() -> None:
    def switching(x: Any, y: Any = None) -> None:
        switch = numpyro.sample("switch", dist.Bernoulli(0.5))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(switch * x, 1), obs=y)

    with pytest.raises(InputError, match=r"latent 'switch' is discrete.*Bernoulli.*Marginalise"):
        calibrate(problem(switching, guide=None))


def test_a_model_without_latents_has_nothing_to_infer() -> None:
    def certain(x: Any, y: Any = None) -> None:
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(x, 1), obs=y)

    with pytest.raises(InputError, match=r"no latent to infer.*'y'"):
        calibrate(problem(certain))


# The guide ---------------------------------------------------------------------------------


def test_a_latent_that_the_guide_does_not_cover_is_named() -> None:
    def empty(x: Any, y: Any = None) -> None:
        pass

    with pytest.raises(InputError, match=r"guide=.*does not cover.*'slope'.*samples none.*Add"):
        calibrate(problem(guide=empty))


def test_a_site_that_only_the_guide_has_is_named() -> None:
    def talkative(x: Any, y: Any = None) -> None:
        numpyro.sample("slope", dist.Normal(numpyro.param("m", 0.0), 1))
        numpyro.sample("intercept", dist.Normal(0, 1))

    with pytest.raises(InputError, match=r"guide=.*samples 'intercept'.*latents are 'slope'"):
        calibrate(problem(guide=talkative))


def test_a_guide_whose_latent_has_another_shape_is_refused() -> None:
    def wide(x: Any, y: Any = None) -> None:
        numpyro.sample("slope", dist.Normal(jnp.zeros(3), 1).to_event(1))

    with pytest.raises(InputError, match=r"guide=.*'slope' with shape \(3,\).*shape \(\)"):
        calibrate(problem(guide=wide))


def test_local_latents_in_minibatches_do_not_fit_a_global_autoguide() -> None:
    with pytest.raises(
        InputError, match=r"guide=AutoMultivariateNormal.*'level'.*plate 'row'.*AutoNormal"
    ):
        calibrate(
            problem(with_local_latents, guide=autoguide.AutoMultivariateNormal), {"y": np.arange(6)}
        )


def test_a_guide_that_subsamples_a_plate_of_its_own_is_refused() -> None:
    """Its rows would be others than the model's."""

    def misnamed(y: Any = None) -> None:
        loc = numpyro.param("loc", jnp.zeros(6))
        with numpyro.plate("rows", 6, subsample_size=2) as members:
            numpyro.sample("level", dist.Normal(loc[members], 1))

    with pytest.raises(InputError, match=r"guide=.*'rows'.*'row'"):
        calibrate(problem(with_local_latents, guide=misnamed), {"y": np.arange(6.0)})


# The data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [{"x": X}, {"x": X, "y": None}], ids=["left out", "None"])
def test_a_fit_without_outcomes_points_to_decide(data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"`data` has no 'y'.*observed outcomes.*decide"):
        calibrate(problem(), data)


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(InputError, match=r"`data` lacks 'x', which `regression` needs.*has 'y'"):
        calibrate(problem(), {"y": Y})


def test_an_unknown_argument_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"`data` has 'z', which `regression`.*'x', 'y'"):
        calibrate(problem(), {**DATA, "z": X})


def test_outcomes_that_would_broadcast_are_refused_with_both_shapes() -> None:
    with pytest.raises(
        InputError, match=r"`data\['y'\]`.*shape \(4, 1\).*shape \(4,\).*broadcast.*Reshape"
    ):
        calibrate(problem(), {"x": X, "y": Y[:, None]})


def test_values_that_are_not_finite_are_counted_and_located() -> None:
    spoilt = np.where(np.isin(np.arange(12), [2, 5, 7]), np.nan, 1.0)
    spoilt[10] = np.inf
    data = {"x": np.ones(12), "y": spoilt}
    with pytest.raises(
        InputError, match=r"`data\['y'\]` has 4 values.*NaN or infinite.*rows 2, 5, 7 and 10.*mask"
    ):
        calibrate(problem(), data)


def test_only_the_first_rows_that_are_not_finite_are_listed() -> None:
    data = {"x": np.full((12, 2), np.nan), "y": np.ones(12)}
    with pytest.raises(
        InputError, match=r"`data\['x'\]` has 24 values.*rows 0, 1, 2, 3, 4 and 7 more"
    ):
        calibrate(problem(), data)


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match=r"`data\['x'\]` must be finite; got nan"):
        calibrate(problem(), {"x": float("nan"), "y": Y})


@pytest.mark.parametrize(
    "value", [np.array([1e300, 1.0]), np.array([2**33 + 5, 1])], ids=["float64", "int64"]
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_a_value_that_single_precision_cannot_hold_is_refused(value: np.ndarray) -> None:
    """JAX would go on with inf, or with another integer altogether."""
    with pytest.raises(InputError, match=r"`data\['x'\]`"):
        problem().check_data({"x": value, "y": Y[:2]}, needs_outcome=True)


def test_data_of_zero_rows_is_refused() -> None:
    with pytest.raises(InputError, match=r"`data\['x'\]` has zero rows.*\(0,\)"):
        calibrate(problem(), {"x": X[:0], "y": Y[:0]})


def test_strings_are_to_be_encoded() -> None:
    data = {"x": np.array(["a", "b", "c", "d"]), "y": Y}
    with pytest.raises(InputError, match=r"`data\['x'\]` must hold numbers.*<U1.*integers"):
        calibrate(problem(), data)


@pytest.mark.parametrize("data", [Y, [X, Y], None], ids=["array", "list", "None"])
def test_data_that_is_no_mapping_is_refused(data: Any) -> None:
    with pytest.raises(
        InputError, match=r"`data` must be a mapping.*'x': \.\.\., 'y': \.\.\.\}; got"
    ):
        calibrate(problem(), data)


@pytest.mark.parametrize("key", [0, None, jax.random.split(KEY)], ids=["int", "None", "two keys"])
def test_a_seed_is_no_key(key: Any) -> None:
    with pytest.raises(InputError, match=r"`key` must be one JAX random key.*jax.random.key\(0\)"):
        stakes.calibrate(key, problem(), DATA)


def test_labels_have_to_be_as_many_as_members() -> None:
    with pytest.raises(InputError, match=r"coords\['row'\].*3 labels for 4 members"):
        calibrate(problem(), coords={"row": ["a", "b", "c"]})


def test_labels_of_a_plate_that_the_model_does_not_have_are_refused() -> None:
    with pytest.raises(InputError, match=r"coords.*'rwo'.*'row'"):
        calibrate(problem(), coords={"rwo": ["a", "b", "c", "d"]})


def test_labels_of_a_plate_that_only_latents_have_are_accepted() -> None:
    """They label draws of the posterior. With nothing to object to, a fit is started."""

    def grouped(x: Any, y: Any = None) -> None:
        with numpyro.plate("group", 2):
            slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("row", len(x)):
            numpyro.sample("y", dist.Normal(slope.sum() * x, 1), obs=y)

    def guide(x: Any, y: Any = None) -> None:
        with numpyro.plate("group", 2):
            numpyro.sample("slope", dist.Normal(numpyro.param("loc", jnp.zeros(2)), 0.1))

    with pytest.raises(AssertionError, match="fit was started"):
        calibrate(problem(grouped, guide=guide), coords={"group": ["a", "b"]})


# Loss and utility --------------------------------------------------------------------------


def test_a_loss_that_sums_is_refused_with_the_shape_it_returned() -> None:
    def summed(outcome: Any, decision: Any) -> Any:
        return jnp.sum((outcome - decision) ** 2)

    with pytest.raises(
        InputError, match=r"`loss=summed` must work elementwise.*shape \(4,\).*shape \(\)"
    ):
        calibrate(problem(loss=summed))


def test_a_negative_loss_is_refused_with_the_place_where_it_is() -> None:
    def lowered(outcome: Any, decision: Any) -> Any:
        return jnp.square(outcome - decision) - 0.1

    with pytest.raises(
        InputError, match=r"`loss=lowered` is negative.*at outcome.*and decision.*zero or more"
    ):
        calibrate(problem(loss=lowered))


@pytest.mark.parametrize(("sign", "where"), [(1, "rises"), (-1, "falls")])
def test_a_loss_without_a_best_decision_is_refused_before_any_fit(sign: int, where: str) -> None:
    """Adding a constant, the remedy for a negative loss, would not help here."""

    def difference(outcome: Any, decision: Any) -> Any:
        return sign * (outcome - decision)

    with pytest.raises(
        InputError, match=rf"Under `difference`, .* as the decision {where}.*needs limits"
    ) as caught:
        calibrate(problem(loss=difference))
    assert "add a constant" not in str(caught.value)


def test_a_utility_without_a_best_decision_is_refused_before_any_fit() -> None:
    growing = stakes.Utility(lambda outcome, decision: jnp.exp(0.001 * (decision - outcome)))
    with pytest.raises(InputError, match=r"as the decision rises.*needs limits"):
        calibrate(problem(utility=growing))


def test_decisions_without_end_are_refused_with_their_direction() -> None:
    """By the model, not by what was observed: costs of falling short only."""
    with pytest.raises(stakes.NumericalError, match=r"2 of 3 decisions .* falls.*needs limits"):
        check_decisions(np.array([-np.inf, 1.0, -np.inf]))


def test_a_loss_is_not_refused_for_outcomes_that_nobody_would_observe() -> None:
    """The spread starts out heavy-tailed, so that outcomes drawn before a fit are anywhere."""

    def volatile(y: Any = None) -> None:
        log_scale = numpyro.sample("log_scale", dist.Normal(40.0, 1.0))
        with numpyro.plate("day", 4):
            numpyro.sample("y", dist.StudentT(3.0, 0.0, jnp.exp(log_scale)), obs=y)

    def steep(outcome: Any, decision: Any) -> Any:
        return jnp.exp(20 * (decision - outcome)) - 20 * (decision - outcome) - 1

    seen = {"y": np.array([0.1, -0.3, 0.2, 0.0])}
    plan = prepare(KEY, stakes.Problem(volatile, outcome="y", loss=steep), seen, stakes.Options())
    assert plan.expectation == stakes.Quadrature()


def test_a_fault_at_an_outcome_that_may_be_predicted_is_said() -> None:
    def relative(outcome: Any, decision: Any) -> Any:
        return jnp.abs(outcome - decision) / jnp.sqrt(outcome)  # not defined below zero

    with pytest.warns(stakes.StakesWarning, match=r"may be predicted: `loss=relative` is not fini"):
        prepare(KEY, problem(loss=relative), DATA, stakes.Options())


def test_a_loss_that_is_not_finite_is_refused_with_the_place_where_it_is() -> None:
    def singular(outcome: Any, decision: Any) -> Any:
        return 1 / jnp.abs(outcome - decision)

    with pytest.raises(InputError, match=r"`loss=singular` is not finite \(inf\) at outcome"):
        calibrate(problem(loss=singular))


def test_the_way_out_fits_a_loss_that_is_not_finite() -> None:
    """Adding a constant, the remedy for a negative loss, would not help here."""

    def singular(outcome: Any, decision: Any) -> Any:
        return 1 / jnp.abs(outcome - decision)

    with pytest.raises(InputError) as caught:
        calibrate(problem(loss=singular))
    assert "add a constant" not in str(caught.value)


def test_a_utility_that_is_not_positive_is_refused() -> None:
    def hit(outcome: Any, decision: Any) -> Any:
        return jnp.maximum(1 - jnp.abs(outcome - decision), 0.0)

    with pytest.raises(
        InputError, match=r"`utility=hit` is zero or negative \(0\.0\) at outcome.*above zero"
    ):
        calibrate(problem(utility=stakes.Utility(hit)))


@pytest.mark.slow
def test_losses_that_are_all_zero_leave_no_scale() -> None:
    """The one mistake here that only VI's decisions can show."""

    def free(outcome: Any, decision: Any) -> Any:
        return 0.0 * (outcome - decision)

    with pytest.raises(
        InputError,
        match=r"`Linearized\(quantile=0.9\)`.*VI losses is 0.0.*positive.*Linearized\(scale=",
    ):
        stakes.calibrate(KEY, problem(loss=free), DATA, steps=1, progress=False)


@pytest.mark.parametrize("loss", [lambda outcome: outcome, lambda a, b, c: a])
def test_a_loss_takes_outcome_and_decision(loss: Any) -> None:
    with pytest.raises(InputError, match=r"`Problem\(loss=...\)` must be a function of \(outcome"):
        problem(loss=loss)


LOOKING = {
    "if": lambda outcome, decision: outcome - decision if outcome > decision else 0.0,
    "NumPy": lambda outcome, decision: np.where(outcome > decision, 1.0, 0.0),
    "max": lambda outcome, decision: max(outcome - decision, 0.0),
    "float": lambda outcome, decision: abs(float(outcome) - decision),
}


@pytest.mark.parametrize("cost", LOOKING.values(), ids=LOOKING)
def test_a_loss_or_utility_that_cannot_be_compiled_is_pointed_to_jax_numpy(cost: Any) -> None:
    with pytest.raises(InputError, match=r"`Problem\(loss=.*jax.numpy.*jnp.where"):
        calibrate(problem(loss=cost))
    with pytest.raises(InputError, match=r"`Problem\(utility=.*jax.numpy.*jnp.where"):
        calibrate(problem(utility=stakes.Utility(cost)))


# Settings ----------------------------------------------------------------------------------


def test_a_model_is_no_problem() -> None:
    with pytest.raises(InputError, match=r"`problem` must be a `Problem.*the function regression"):
        calibrate(regression)  # type: ignore[arg-type]


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    found = stakes.Options(steps=np.int64(10), draws=np.int32(3)).fit_settings(
        draws=1, progress=False
    )
    assert (type(found.steps), type(found.draws)) == (int, int)


def test_a_transform_has_nothing_to_do_where_a_utility_is_given() -> None:
    utility = stakes.Utility(lambda y, h: jnp.exp(-jnp.abs(y - h)))
    with pytest.raises(InputError, match=r"`transform=Linearized.*utility already; leave.*out"):
        calibrate(problem(utility=utility), transform=stakes.Linearized())


def test_an_estimator_has_nothing_to_do_where_the_loss_is_linearized() -> None:
    with pytest.raises(InputError, match=r"`estimator=Jensen\(\)`.*no logarithm.*Exponential"):
        calibrate(problem(), estimator=stakes.Jensen())


def test_bayes_decisions_need_a_loss_that_knows_them() -> None:
    with pytest.raises(InputError, match=r"m_step=BayesDecisions.*NumericalDecisions"):
        calibrate(
            problem(loss=lambda y, h: jnp.abs(y - h) ** 1.5),
            method=stakes.EM(m_step=stakes.BayesDecisions()),
        )


@pytest.mark.parametrize(
    ("model", "loss", "expectation", "reason"),
    [
        (regression, stakes.Squared(), stakes.Enumeration(), "only discrete"),
        (POISSON, stakes.Squared(), stakes.Quadrature(), "continuous outcomes"),
        (POISSON, stakes.Squared(), stakes.MonteCarlo(), "reparameterised"),
        (regression, lambda y, h: jnp.abs(y - h) ** 1.5, stakes.ClosedForm(), "no closed form"),
    ],
    ids=["Enumeration", "Quadrature", "MonteCarlo", "ClosedForm"],
)
def test_an_expectation_that_does_not_fit_the_outcome_is_refused(
    model: Any, loss: Any, expectation: Any, reason: str
) -> None:
    name = type(expectation).__name__
    data = {"x": X, "y": np.array([0, 1, 2, 3])}
    with pytest.raises(
        InputError, match=rf"`expectation={name}.*{reason}.*Leave `expectation` out"
    ):
        calibrate(problem(model, loss=loss), data, expectation=expectation)


def test_an_outcome_that_no_expectation_can_handle_is_named() -> None:
    def censored(level: Any) -> dist.Distribution:
        return dist.LeftCensoredDistribution(dist.Normal(level, 1.0), 0.0)

    with pytest.raises(InputError, match=r"No expectation can handle.*LeftCensored.*icdf.*Rewrite"):
        calibrate(problem(with_outcome(censored), loss=stakes.Tilted(0.2)))


@pytest.mark.parametrize("setting", ["steps", "draws"])
@pytest.mark.parametrize("value", [0, -1, 1.5])
def test_counts_have_to_be_whole_and_above_zero(setting: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"`{setting}=` must be a whole number.*got {value}"):
        calibrate(problem(), **{setting: value})


def test_nuts_and_minibatches_do_not_go_together() -> None:
    approximation = bridge.approximate(
        problem(with_local_latents, guide=level_guide), {"y": jnp.arange(6.0)}, KEY
    )
    with pytest.raises(InputError, match=r"NUTS needs the whole data.*subsamples 'row'.*Compare"):
        bridge.nuts(approximation, KEY, warmup=1, draws=1, progress=False)


def test_an_input_error_is_a_value_error() -> None:
    """So that code which knows nothing of `stakes` can catch it."""
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, stakes.StakesError)
