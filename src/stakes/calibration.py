"""Section 5 of the paper: from a problem and data to calibrated decisions."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import jax
import numpy as np
import optax

from stakes.algorithms import EM, Joint
from stakes.expectation import Expectation
from stakes.fitting import Course, Fit, Fitting, State, Step, outset, run
from stakes.numpyro_adapter import NumPyroApproximation
from stakes.preparation import Coords, check_fit, prepare
from stakes.problem import Problem, checked_key
from stakes.progress import waiting
from stakes.result import Calibration
from stakes.typing import Data, Key
from stakes.utilities import Transform
from stakes.utility_term import Estimator

if TYPE_CHECKING:
    pass


def calibrate(
    key: Key,
    problem: Problem,
    data: Data,
    *,
    transform: Transform | None = None,
    method: Joint | EM = Joint(),  # noqa: B008 (a frozen value)
    expectation: Expectation | None = None,
    estimator: Estimator | None = None,
    steps: int = 30_000,
    draws: int | None = None,
    optimizer: optax.GradientTransformation | None = None,
    warm_start: bool = True,
    coords: Coords | None = None,
    progress: bool = True,
    journal: "Journal | None" = None,
) -> "Calibration":
    """Fit plain VI, find M_q, transform the loss, and fit the calibrated posterior.

    Args:
        key: a JAX random key; the same key gives the same result.
        problem: model, outcome, loss or utility, and guide.
        data: the model's arguments by name; the one named like the outcome is observed.
        transform: from loss to utility, `Linearized(quantile=0.9)` by default; not for a problem
            that is given by a utility.
        method: `Joint()` or `EM()`.
        expectation: of the loss or utility over outcomes; the best is chosen by default.
        estimator: of the utility term where a utility stands inside a logarithm.
        steps: at most this many, for each of the two fits.
        draws: of θ at each step; 10 by default, 32 for small problems.
        optimizer: any optax optimiser; Adam with a decaying step size by default.
        warm_start: whether the calibrated fit starts from VI's optimum.
        coords: labels of the plates' members, by plate.
        progress: whether to show a progress bar, if someone is watching.
        journal: keeps a record of both fits, and supplies one to go on from.

    >>> import jax, numpyro, numpyro.distributions as dist, stakes
    >>> def coin(n, y=None):
    ...     p = numpyro.sample("p", dist.Beta(1, 1))
    ...     with numpyro.plate("toss", n):
    ...         numpyro.sample("y", dist.Bernoulli(p), obs=y)
    >>> problem = stakes.Problem(coin, outcome="y", loss=stakes.Squared())
    >>> data = {"n": 4, "y": jax.numpy.array([1, 1, 0, 1])}
    >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=300)
    >>> result.decisions.dims
    ('toss',)
    """
    setup_key, vi_key, fit_key, evaluate_key = jax.random.split(checked_key(key), 4)
    with waiting("tracing the model", show=progress):
        plan = prepare(
            setup_key,
            problem,
            data,
            transform=transform,
            method=method,
            expectation=expectation,
            estimator=estimator,
            steps=steps,
            draws=draws,
            optimizer=optimizer,
            coords=coords,
            progress=progress,
        )
    approximation, settings = plan.approximation, plan.settings

    # Plain VI, its decisions, and the scale of its losses.
    params = approximation.structure.start
    carry_out = _recorded(journal)
    vi = carry_out("VI", plan.vi_step(), approximation, plan.vi_state(params), vi_key, settings)
    check_fit("VI", vi)
    known = journal.decisions(approximation.instances.shape) if journal is not None else None
    with waiting("deciding under plain VI", show=progress):
        plan, decisions = plan.after_vi(vi, evaluate_key, known)
    if journal is not None:
        journal.keep_decisions(decisions)

    # The calibrated fit, from VI's optimum and its decisions unless asked otherwise.
    # h starts at VI's decision also from random λ: far from it, U has a flat tail.
    state = plan.state(vi.params if warm_start else params, decisions)
    step = plan.step(plan.transform.scale if plan.transform else None)
    calibrated = carry_out("calibrated", step, approximation, state, fit_key, settings)
    check_fit("calibrated", calibrated)
    return Calibration.of(plan, vi, calibrated, coords, evaluate_key)


class Journal(Protocol):
    """A record of the two fits, "VI" and "calibrated", that outlives the process."""

    def course(self, title: str, start: Course) -> Course:
        """Where this fit was left; `start` where nothing is known of it."""
        ...

    def watch(self, title: str, course: Course) -> None:
        """Take down where the fit stands; called after every chunk of steps."""
        ...

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """VI's decisions, of this shape; None where nothing is known of them."""
        ...

    def keep_decisions(self, decisions: np.ndarray) -> None:
        """Take down VI's decisions, once the plain fit has ended."""
        ...


def _recorded(journal: Journal | None) -> Callable[..., Fit]:
    """The loop, with a record kept of it where there is a journal."""
    if journal is None:
        return run

    def carry_out(
        title: str,
        step: Step,
        approximation: NumPyroApproximation,
        state: State,
        key: Key,
        settings: Fitting,
    ) -> Fit:
        course = journal.course(title, outset(state))
        watch = partial(journal.watch, title)
        return run(title, step, approximation, state, key, settings, course=course, watch=watch)

    return carry_out
