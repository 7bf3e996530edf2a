"""One problem from several random starts at once: how much of a result is luck.

All seeds run as one compiled batch, and plain VI, which does not depend on the loss, is fitted once
for any number of losses and transforms.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Key, Params
from stakes.bridge import NumPyroApproximation
from stakes.errors import InputError
from stakes.fitting import Fit, Together, Watch, run_apart, run_together
from stakes.host.workers import checked_client
from stakes.predicting import FittedPosterior
from stakes.problem import Problem, checked_key
from stakes.protocols import Expectation
from stakes.study import Calibration, Keys, Plan, stack_trees


@final
@dataclass(frozen=True, eq=False)
class PlainFits:
    """Plain VI of the same model from several seeds."""

    keys: Key
    """One for each seed."""
    approximation: NumPyroApproximation
    starts: Sequence[Params]
    fits: Sequence[Fit]

    @cached_property
    def decisions(self) -> "PlainDecisions":
        """Keeps the decisions of these fits, which are the same for every transform."""
        return PlainDecisions()

    def ready(self, plan: Plan) -> list[tuple[Plan, np.ndarray]]:
        """For each seed the plan with its M_q, and VI's decisions, found once for each loss."""
        kept = self.decisions.about(plan) or itertools.repeat(None, len(self.fits))
        own = plan.on(self.approximation)
        found = [
            _after_vi(own, vi, Keys.of(key), decisions)
            for vi, key, decisions in zip(self.fits, self.keys, kept, strict=True)
        ]
        self.decisions.keep(plan, [decisions for _, decisions in found])
        return found


@final
class PlainDecisions:
    """Decisions under plain fits, by problem and expectation, one array for each seed."""

    def __init__(self) -> None:
        self._made: dict[tuple[Problem, Expectation], list[np.ndarray]] = {}

    def about(self, plan: Plan) -> list[np.ndarray] | None:
        return self._made.get((plan.problem, plan.expectation))

    def keep(self, plan: Plan, decisions: list[np.ndarray]) -> None:
        self._made[plan.problem, plan.expectation] = decisions


def fit_vi(
    keys: Key,
    plan: Plan,
    *,
    watch: Watch | None = None,
    together: int | None = None,
    on: Any = None,
) -> PlainFits:
    """Plain VI from each key, with a start of its own for each seed.

    Args:
        watch: called after every chunk of steps, where all seeds are one batch here.
        together: how many seeds are one compiled batch, which keeps one pace; all by default.
        on: a `dask.distributed.Client`, on whose workers the batches are fitted.
    """
    keys = _checked_keys(keys)
    how = _How.checked(plan, watch, together, on)
    each = jax.vmap(Keys.of)(keys)
    starts = [plan.approximation.init(key) for key in each.setup]
    return _plain_fits(keys, plan, starts, each.vi, how)


def continued(plain: PlainFits, plan: Plan) -> PlainFits:
    """Plain VI continued for the steps of this plan, as many as a calibrated fit takes from there.

    It has the same random numbers as that fit, so the two differ only in the utility term.
    """
    _check_plain(plain)
    _check(plan)
    plan = plan.on(plain.approximation)
    starts = [fit.params for fit in plain.fits]
    return _plain_fits(plain.keys, plan, starts, jax.vmap(Keys.of)(plain.keys).calibrated, _How())


def _plain_fits(
    keys: Key, plan: Plan, starts: Sequence[Params], fit_keys: Key, how: "_How"
) -> PlainFits:
    batch = Together(
        f"VI, {len(keys)} seeds",
        lambda _: plan.vi_step(),
        jnp.zeros(len(keys)),
        plan.approximation,
        jax.vmap(plan.vi_state)(stack_trees(starts)),
        fit_keys,
        plan.settings,
    )
    fits = how.fitted(batch)
    for fit in fits:
        fit.check_whole("VI")
    return PlainFits(keys, plan.approximation, starts, fits)


def calibrate_seeds(
    plain: PlainFits,
    plan: Plan,
    *,
    watch: Watch | None = None,
    together: int | None = None,
    on: Any = None,
) -> list[Calibration]:
    """The plan carried out from each plain fit, which may come from the plan of another loss.

    The arguments by name are those of `fit_vi`.
    """
    _check_plain(plain)
    how = _How.checked(plan, watch, together, on)
    ready = plain.ready(plan)
    starts = [fit.params for fit in plain.fits] if plan.warm_start else plain.starts
    return _calibrated(ready, plain.fits, starts, plain.keys, how)


def calibrate_scales(plain: PlainFits, plan: Plan, scales: Sequence[float]) -> list[Calibration]:
    """The plan from the first of the plain fits, once for each scale M."""
    _check_plain(plain)
    _check(plan)
    if plan.transform is None:
        raise InputError("`scales`: a problem given by a utility has no scale M to vary.")
    scales = [checks.number("`scales`", each, above=0) for each in checks.array("`scales`", scales)]
    [first, *_] = plain.ready(plan)
    ready = [(replace(first[0], transform=plan.transform.at(scale)), first[1]) for scale in scales]
    count, vi = len(scales), plain.fits[0]
    keys = jnp.broadcast_to(plain.keys[:1], (count,))
    return _calibrated(ready, [vi] * count, [vi.params] * count, keys, _How())


def _calibrated(
    ready: Sequence[tuple[Plan, np.ndarray]],
    plain: Sequence[Fit],
    starts: Sequence[Params],
    keys: Key,
    how: "_How",
) -> list[Calibration]:
    plans = [plan for plan, _ in ready]
    if len({plan.expectation for plan in plans}) > 1:
        raise InputError(
            "The seeds predict counts of different ranges and cannot run as one batch; give "
            "`Enumeration(points=...)` for all of them."
        )
    scales, each = [plan.scale for plan in plans], jax.vmap(Keys.of)(keys)
    decisions = jnp.stack([jnp.asarray(decided) for _, decided in ready])
    batch = Together(
        f"calibrated, {len(plans)} at once",
        plans[0].step,
        None if scales[0] is None else jnp.array(scales, jnp.result_type(float)),
        plans[0].approximation,
        jax.vmap(plans[0].state)(stack_trees(starts), decisions),
        each.calibrated,
        plans[0].settings,
    )
    fits = how.fitted(batch)
    for fit in fits:
        fit.check_whole("calibrated")
    return [
        Calibration(plan=plan, keys=Keys.of(key), vi=vi, calibrated=fit)
        for plan, vi, fit, key in zip(plans, plain, fits, keys, strict=True)
    ]


class _How(NamedTuple):
    """How the fits of all seeds are made."""

    watch: Watch | None = None
    together: int | None = None
    on: Any = None

    @classmethod
    def checked(cls, plan: Plan, watch: Watch | None, together: int | None, on: Any) -> "_How":
        _check(plan)
        if watch is not None:
            checks.function("`watch=`", watch, ("history",))
            if together is not None or on is not None:
                raise InputError("`watch=` sees all seeds as one batch; leave it out.")
        if together is not None:
            together = checks.whole("`together=`", together)
        return cls(watch, together, None if on is None else checked_client(on))

    def fitted(self, batch: Together) -> list[Fit]:
        if self.watch is not None:
            return run_together(batch, self.watch)
        found = run_apart(batch.title, _divide(batch, self.together), self.on)
        return [fit for fits in found for fit in fits]


def _divide(batch: Together, most: int | None) -> list[Together]:
    """The same runs in batches of at most so many; as they are for None."""
    count = len(batch.keys)
    cuts = range(0, count, most or count)
    parts = [slice(start, start + (most or count)) for start in cuts]
    return [
        batch._replace(
            each=jax.tree.map(lambda leaf, at=part: leaf[at], batch.each),
            states=jax.tree.map(lambda leaf, at=part: leaf[at], batch.states),
            keys=batch.keys[part],
        )
        for part in parts
    ]


def _check(plan: Plan) -> None:
    checks.instance("`plan`", plan, Plan, "what `prepare(...)` returns")


def _check_plain(plain: PlainFits) -> None:
    checks.instance("`plain`", plain, PlainFits, "what `fit_vi(...)` returns")


def _checked_keys(keys: Key) -> Key:
    try:
        return jnp.stack([checked_key(key) for key in keys])
    except (TypeError, ValueError):
        rule = "one JAX random key for each seed, such as `jax.random.split(key, 3)`"
        raise checks.refused("`keys`", rule, keys) from None


def _after_vi(
    plan: Plan, vi: Fit, keys: Keys, decisions: np.ndarray | None
) -> tuple[Plan, np.ndarray]:
    """The plan with M_q from the losses of VI's own decisions; and these decisions."""
    plan = plan.sized(vi.params, keys.spread)
    if decisions is None:
        posterior = FittedPosterior(plan.approximation, vi.params)
        decisions = predicting.decide(
            plan.problem.task, posterior, plan.predictors.on(), plan.expectation, keys.decisions
        )
    return plan.with_scale(vi.params, decisions, keys), decisions
