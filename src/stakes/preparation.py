"""From a problem and data to a plan: everything chosen and checked before the first fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stakes import evaluation, numpyro_adapter
from stakes import expectation as expectations
from stakes.algorithms import EM, VI, Joint
from stakes.approximation import Instances
from stakes.errors import InputError, NumericalError, some
from stakes.evaluation import Fitted
from stakes.expectation import ClosedForm, Enumeration, Expectation
from stakes.fitting import Fit, Fitting, State, Step, Stop
from stakes.numpyro_adapter import NumPyroApproximation
from stakes.problem import Problem
from stakes.typing import Array, Data, Key, Params, Rate
from stakes.utilities import Gain, Linearized, Transform, with_scale
from stakes.utility_term import Estimator, utility_term

Coords = Mapping[str, Sequence[Any]]
Method = Joint | EM


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A decision problem with everything chosen, for `calibrate` to carry out."""

    problem: Problem
    approximation: NumPyroApproximation
    transform: Transform | None
    """From loss to utility, with M once it is known; None for a problem given by a utility."""
    method: Method
    expectation: Expectation
    estimator: Estimator | None
    settings: Fitting

    def vi_step(self) -> Step:
        return VI().step(self.settings)

    def vi_state(self, params: Params) -> State:
        return VI().init(params, self.settings)

    def after_vi(
        self, vi: Fit, key: Key, decisions: np.ndarray | None = None
    ) -> tuple["Plan", np.ndarray]:
        """The plan with the scale M_q of the losses of VI's own decisions; and these decisions."""
        posterior = Fitted(self.approximation, vi.params)
        predictor = numpyro_adapter.predictor(self.problem, self.approximation)
        expectation = self.expectation
        if not isinstance(expectation, Enumeration) or expectation.points is None:
            expectation = evaluation.widened(expectation, posterior, predictor, key)
        if decisions is None:
            decisions = evaluation.decide(self.problem, posterior, predictor, expectation, key)
            check_decisions(decisions)
        seen = evaluation.observations(posterior, predictor)
        assert seen is not None
        self.problem.check_cost(jnp.asarray(seen.outcomes), jnp.asarray(decisions))
        transform = self.transform
        if transform is not None:
            transform = with_scale(transform, seen.costs(self.problem, decisions))
        return replace(self, expectation=expectation, transform=transform), decisions

    def step(self, scale: Rate | None) -> Step:
        """A step of the calibrated fit, with this M."""
        gain = gain_of(self.problem, self.transform, scale)
        term = utility_term(gain, self.expectation, self.estimator)
        return self.method.step(term, gain, self.expectation, self.settings)

    def state(self, params: Params, decisions: Array | np.ndarray) -> State:
        return self.method.init(params, jnp.asarray(decisions), self.settings)


def prepare(
    key: Key,
    problem: Problem,
    data: Data,
    *,
    transform: Transform | None,
    method: Method,
    expectation: Expectation | None,
    estimator: Estimator | None,
    steps: int,
    draws: int | None,
    optimizer: optax.GradientTransformation | None,
    coords: Coords | None,
    progress: bool,
    approximation: NumPyroApproximation | None = None,
) -> Plan:
    """Trace model and guide, choose what was left open, and find what does not fit together.

    An `approximation` of the same model and data saves the tracing, and programs compiled for it
    serve again.
    """
    transform = _checked_transform(problem, transform)
    checked = problem.check_data(data, needs_outcome=True)
    if approximation is None:
        approximation = numpyro_adapter.approximate(problem, checked, key)
    check_coords(coords, approximation.instances, *approximation.structure.latents.values())
    expectation = _checked_expectation(problem, transform, expectation, approximation, key)
    _check_method(problem, transform, method, expectation, estimator)
    draws = _default_draws(approximation, expectation) if draws is None else draws
    return Plan(
        problem=problem,
        approximation=approximation,
        transform=transform,
        method=method,
        expectation=expectation,
        estimator=estimator,
        settings=Fitting(steps=steps, draws=draws, optimizer=optimizer, progress=progress),
    )


def _checked_transform(problem: Problem, transform: Transform | None) -> Transform | None:
    if problem.utility is not None:
        if transform is not None:
            raise InputError(
                f"`transform={transform}` turns a loss into a utility, but the problem is given by "
                f"a utility already; leave `transform` out."
            )
        return None
    if transform is not None and not isinstance(transform, Transform):
        raise InputError(
            f"`transform=` must be `Linearized(...)` or `Exponential(...)`; got {transform!r}."
        )
    return Linearized() if transform is None else transform


def _default_draws(approximation: NumPyroApproximation, expectation: Expectation) -> int:
    """Small problems take more draws of θ for next to nothing."""
    small = int(np.prod(approximation.instances.shape)) <= 1000
    return 32 if small and isinstance(expectation, ClosedForm) else 10


def _checked_expectation(
    problem: Problem,
    transform: Transform | None,
    expectation: Expectation | None,
    approximation: NumPyroApproximation,
    key: Key,
) -> Expectation:
    """Try loss and expectation on outcomes drawn where the guide starts, before any fit."""
    params = approximation.structure.start
    predictor = numpyro_adapter.predictor(problem, approximation)
    stacked, weight = evaluation.outcomes(Fitted(approximation, params), predictor, key, 1)
    outcome = jax.tree.map(lambda leaf: leaf[0], stacked)
    draws = jnp.asarray(outcome.expand(weight.shape).sample(key), jnp.result_type(float))
    seen = evaluation.observed(Fitted(approximation, params), predictor)
    for outcomes in (draws, jnp.asarray(seen)):
        problem.check_cost(outcomes, jnp.broadcast_to(jnp.median(outcomes), outcomes.shape))
        problem.check_cost(outcomes, outcomes)
    gain = gain_of(problem, transform, 1.0)
    if expectation is None:
        return expectations.choose(outcome, gain, weight)
    expectations.check(expectation, outcome, gain, weight)
    return expectation


def _check_method(
    problem: Problem,
    transform: Transform | None,
    method: Joint | EM,
    expectation: Expectation,
    estimator: Estimator | None,
) -> None:
    """Find what does not fit together before the first fit, not after."""
    if not isinstance(method, Joint | EM):
        raise InputError(f"`method=` must be `Joint()` or `EM()`; got {method!r}.")
    gain = gain_of(problem, transform, 1.0)
    utility_term(gain, expectation, estimator)
    if isinstance(method, EM):
        method.chosen(gain)


def gain_of(problem: Problem, transform: Transform | None, scale: Rate | None) -> Gain:
    """The loss on the scale M, or the utility as it was given."""
    if problem.loss is None:
        assert problem.utility is not None
        return problem.utility
    assert transform is not None
    assert scale is not None
    return transform(problem.loss, scale)


def check_decisions(decisions: np.ndarray) -> None:
    bad = ~np.isfinite(decisions)
    if bad.any():
        raise NumericalError(
            f"{int(bad.sum())} of {decisions.size} decisions are not finite: the expected loss or "
            f"utility is not, for the outcomes predicted. An enumeration whose window "
            f"(`Enumeration(points=...)`) is too small does this, as does a loss whose expectation "
            f"is infinite."
        )


def check_fit(name: str, fit: Fit) -> None:
    if fit.reason is Stop.NUMERICAL_FAILURE and fit.skipped >= fit.steps:
        raise NumericalError(
            f"The {name} fit found no finite bound and gradient at all in {fit.steps} steps. Check "
            f"the model's priors and the size of the data, give a smaller step "
            f"(`optimizer=optax.adam(1e-3)`) or, for counts, a larger `Enumeration(points=...)`."
        )


def check_whole(name: str, fit: Fit) -> None:
    """For a fit whose figures are to be kept: one that was cut short must not pass for it."""
    check_fit(name, fit)
    if fit.reason is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    if fit.reason is Stop.NUMERICAL_FAILURE:
        raise NumericalError(f"The {name} fit {fit.reason} (after {fit.steps} steps).")


def check_coords(coords: Coords | None, *labelled: Instances) -> None:
    sizes = {d: n for each in labelled for d, n in zip(each.dims, each.shape, strict=True)}
    for name, labels in (coords or {}).items():
        if name not in sizes:
            raise InputError(f"`coords` labels {name!r}; the plates are {some(sizes)}.")
        if len(labels) != sizes[name]:
            raise InputError(
                f"`coords[{name!r}]` has {len(labels)} labels for {sizes[name]} members."
            )
