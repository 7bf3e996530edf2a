"""One problem from several random starts at once: how much of a result is luck.

All seeds run as one compiled batch, and plain VI, which knows nothing of the loss, is fitted once
for any number of losses and transforms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp

from stakes.calibration import Calibration
from stakes.errors import InputError
from stakes.fitting import Fit, run_together
from stakes.numpyro_adapter import NumPyroApproximation
from stakes.preparation import Plan, check_fit
from stakes.typing import Key, Params


@final
@dataclass(frozen=True, eq=False)
class PlainFits:
    """Plain VI of the same model from several seeds."""

    keys: Key
    """One for each seed."""
    approximation: NumPyroApproximation
    starts: Sequence[Params]
    fits: Sequence[Fit]


def fit_vi(keys: Key, plan: Plan) -> PlainFits:
    """Plain VI from each key, every seed from a start of its own."""
    setup_keys, fit_keys = _keys(keys, 0), _keys(keys, 1)
    starts = [plan.approximation.init(key) for key in setup_keys]
    fits = run_together(
        f"VI, {len(keys)} seeds",
        lambda _: plan.vi_step(),
        jnp.zeros(len(keys)),
        plan.approximation,
        jax.vmap(plan.vi_state)(_stacked(starts)),
        fit_keys,
        plan.settings,
    )
    for fit in fits:
        check_fit("VI", fit)
    return PlainFits(keys, plan.approximation, starts, fits)


def calibrate_seeds(
    plain: PlainFits, plan: Plan, *, warm_start: bool = True, title: str = "calibrated"
) -> list[Calibration]:
    """The plan carried out from each of the plain fits, which may be of another loss's plan."""
    if plan.approximation is not plain.approximation:
        plan = replace(plan, approximation=plain.approximation)
    evaluate_keys = _keys(plain.keys, 3)
    ready = [plan.after_vi(vi, key) for vi, key in zip(plain.fits, evaluate_keys, strict=True)]
    plans = [each for each, _ in ready]
    if len({each.expectation for each in plans}) > 1:
        raise InputError(
            "The seeds predict counts of different ranges and cannot run as one batch; give "
            "`Enumeration(points=...)` for all of them."
        )
    starts = [fit.params for fit in plain.fits] if warm_start else plain.starts
    scales = [each.transform.scale if each.transform else None for each in plans]
    fits = run_together(
        f"{title}, {len(plans)} seeds",
        plans[0].step,
        None if scales[0] is None else jnp.array(scales, jnp.result_type(float)),
        plan.approximation,
        jax.vmap(plan.state)(_stacked(starts), jnp.stack([jnp.asarray(h) for _, h in ready])),
        _keys(plain.keys, 2),
        plan.settings,
    )
    for fit in fits:
        check_fit("calibrated", fit)
    return [
        Calibration.of(each, vi, fit, None, key)
        for each, vi, fit, key in zip(plans, plain.fits, fits, evaluate_keys, strict=True)
    ]


def _keys(keys: Key, purpose: int) -> Key:
    """As `calibrate` splits its key: setup, VI, calibrated fit, evaluation."""
    return jax.vmap(lambda key: jax.random.split(key, 4))(keys)[:, purpose]


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
