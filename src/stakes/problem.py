"""A decision problem: a model, the outcome it predicts, and what it costs to decide wrongly."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.autoguide import AutoGuide

from stakes import checks
from stakes._types import Array, Data, Key, Number, Program
from stakes.arguments import (
    Columns,
    arguments_of,
    by_name,
    checked_value,
    in_order,
    is_conditioned,
)
from stakes.errors import InputError, name_of, some
from stakes.losses import Asked
from stakes.protocols import Criterion, Gain, Loss, Transform, Trial
from stakes.utilities import ExpUtility, Utility

TRACING_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a program asks for a value that is not known while it is compiled."""


@final
@dataclass(frozen=True)
class Problem:
    """The three parts of a decision problem, and the family that approximates the posterior.

    Args:
        model: a NumPyro model.
        outcome: the sample site to decide about; the model argument of the same name carries
            its observations, and is `None` where they are to be predicted. It may be left out
            for a model made by `formula`.
        loss: `loss(outcome, decision)`, elementwise.
        utility: a `Utility`, instead of a loss.
        guide: a NumPyro autoguide class or a guide function; mean-field normal by default.
        observed: the model argument that carries the observations, where it has another name than
            the site. A model that has them already, by `handlers.condition`, needs none.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, stakes
        >>> def model(x, y=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
        ...     with numpyro.plate("row", len(x)):
        ...         numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
        >>> stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
        Problem(model, outcome='y', loss=Tilted(q=0.2))
    """

    model: Program
    _: KW_ONLY
    outcome: str = ""
    loss: Loss | None = None
    utility: Utility | ExpUtility | None = None
    guide: Program | None = None
    observed: str | None = None

    def __post_init__(self) -> None:
        said: Any = self.outcome
        if isinstance(said, str) and not said:
            object.__setattr__(self, "outcome", getattr(self.model, "response", said))
        object.__setattr__(self, "model", by_name(self.model))
        object.__setattr__(self, "guide", by_name(self.guide))
        _check(self)

    def __repr__(self) -> str:
        cost = f"{'loss' if self.utility is None else 'utility'}={self.criterion.title}"
        return f"Problem({name_of(self.model)}, outcome={self.outcome!r}, {cost})"

    @property
    def observations(self) -> str:
        """The argument that carries the observed outcomes."""
        return self.outcome if self.observed is None else self.observed

    @property
    def criterion(self) -> Criterion:
        """What decisions are judged by: the loss, or the utility."""
        if self.utility is not None:
            return self.utility
        assert self.loss is not None
        return Asked(self.loss)

    def gain(self, transform: Transform | None, scale: Number | None) -> Gain:
        """What a calibrated fit maximises: the loss on the scale M, or the utility as it is."""
        if self.utility is not None:
            return self.utility
        assert self.loss is not None
        assert transform is not None
        assert scale is not None
        return transform(self.loss, scale)

    def check_data(
        self, data: Data, *, needs_outcome: bool, columns: Mapping[str, Columns] | None = None
    ) -> dict[str, Any]:
        """The data as arrays, or an error that names the argument, the rule and the rows.

        Tables with named columns are put into the order of `columns`, as `columns_of` found them
        in the data of the fit.
        """
        if not hasattr(data, "keys") or not hasattr(data, "__getitem__"):
            raise InputError(
                f"`data` must be a mapping from the model's arguments to arrays, such as "
                f"{{{', '.join(f'{n!r}: ...' for n in arguments_of(self.model).names)}}}; "
                f"got {type(data).__name__}."
            )
        given = {str(name): data[name] for name in data.keys()}  # noqa: SIM118
        self._check_names(given)
        conditioned = self.observed is None and is_conditioned(self.model, self.outcome)
        if needs_outcome and given.get(self.observations) is None and not conditioned:
            raise InputError(
                f"`data` has no {self.observations!r}: a fit needs the observed outcomes. "
                f"To decide without them use `result.decide(...)`."
            )
        for name, order in (columns or {}).items():
            if name in given:
                given[name] = in_order(name, given[name], order)
        return {name: checked_value(name, value) for name, value in given.items()}

    def _check_names(self, given: dict[str, Any]) -> None:
        arguments = arguments_of(self.model)
        unknown = [name for name in given if name not in arguments.names]
        if unknown and not arguments.open_ended:
            raise InputError(
                f"`data` has {some(unknown)}, which `{name_of(self.model)}` does not take; "
                f"its arguments are {some(arguments.names)}."
            )
        missing = [
            name for name in arguments.required if name not in given and name != self.observations
        ]
        if missing:
            raise InputError(
                f"`data` lacks {some(missing)}, which `{name_of(self.model)}` needs; "
                f"it has {some(given)}."
            )

    def check_compiles(self) -> None:
        """Trace the loss or utility as a fit does, which gives it outcomes without their values."""
        like = jnp.zeros(())
        try:
            jax.eval_shape(self.criterion.cost, like, like)
        except TRACING_ERRORS as error:
            given = "loss" if self.utility is None else "utility"
            raise InputError(
                f"`Problem({given}={self.criterion.title})` looks at the values of outcomes and "
                f"decisions, which JAX does not know while it compiles a fit. Use `jax.numpy` in "
                f"place of NumPy and `math`, and `jnp.where` in place of `if`, `min` and `max`."
            ) from error

    def check_cost(self, outcome: Array, decision: Array) -> None:
        """Try the loss or utility on outcomes and decisions, and refuse what does not fit."""
        _refuse(self.cost_fault(outcome, decision))

    def cost_fault(self, outcome: Array, decision: Array) -> str | None:
        """What is wrong with the loss or utility at these outcomes and decisions, if anything."""
        outcome, decision = jnp.asarray(outcome), jnp.asarray(decision)
        trial = self.criterion.trial(outcome, decision)
        return _undefined(trial, outcome, decision) or _forbidden(trial, outcome, decision)

    def check_observed(self, outcome: Array) -> None:
        """Try decisions on and far around the range of the observed outcomes.

        Refused is also a loss or utility by which decisions beyond all outcomes are best, however
        far we look.
        """
        trial = self.criterion.trial
        for decision in (jnp.full_like(outcome, jnp.median(outcome)), outcome):
            _refuse(_undefined(trial(outcome, decision), outcome, decision))
        low, high = float(outcome.min()), float(outcome.max())
        inside = [jnp.full_like(outcome, h) for h in np.linspace(low, high, 9)]
        self._check_limits(outcome, low, high, min(self._mean(outcome, h) for h in inside))
        for decision in (jnp.full_like(outcome, jnp.median(outcome)), outcome):
            _refuse(_forbidden(trial(outcome, decision), outcome, decision))
        for decision in inside:
            found = trial(outcome, decision)
            # Far from its outcome a utility may underflow to zero.
            found = found._replace(broken=found.broken & (found.values < 0))
            _refuse(_forbidden(found, outcome, decision))

    def _check_limits(self, outcome: Array, low: float, high: float, least: float) -> None:
        width = max(high - low, 1e-3 * max(abs(low), abs(high), 1.0))
        for end, sign, where, limit in (
            (low, -1, "falls", "lowest - decision"),
            (high, 1, "rises", "decision - highest"),
        ):
            far = [end + sign * width * 4.0**power for power in (3, 4, 5)]
            costs = [self._mean(outcome, jnp.full_like(outcome, h)) for h in far]
            if least > costs[0] >= costs[1] >= costs[2]:
                raise InputError(
                    f"By `{self.criterion.title}` decisions get better without end as the decision "
                    f"{where}: the mean cost of the observed outcomes is {costs[2]:.4g} at "
                    f"{far[2]:.4g}, but {least:.4g} or more between {low:.4g} and {high:.4g}, "
                    f"where they lie. The decision needs limits: add what exceeding them costs, "
                    f"such as `1000 * jnp.maximum({limit}, 0)`."
                )

    def _mean(self, outcome: Array, decision: Array) -> float:
        return float(np.mean(np.asarray(self.criterion.cost(outcome, decision), np.float64)))


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise InputError(fault)


def _undefined(trial: Trial, outcome: Array, decision: Array) -> str | None:
    """That there is not one finite value for each outcome and decision."""
    expected = jnp.broadcast_shapes(outcome.shape, decision.shape)
    if trial.values.shape != expected:
        return (
            f"{trial.name} must work elementwise and not sum or average: for outcomes and "
            f"decisions of shape {expected} it returned shape {trial.values.shape}."
        )
    remedy = "Keep it finite for every outcome that the model may predict."
    odd = ~jnp.isfinite(trial.values)
    return _forbidden(
        trial._replace(rule="not finite", broken=odd, remedy=remedy), outcome, decision
    )


def _forbidden(trial: Trial, outcome: Array, decision: Array) -> str | None:
    """Where the rule of the trial is broken first."""
    if not bool(trial.broken.any()):
        return None
    at = tuple(int(i) for i in np.argwhere(np.asarray(trial.broken))[0])
    y, h = jnp.broadcast_arrays(outcome, decision)
    return (
        f"{trial.name} is {trial.rule} ({float(trial.values[at])}) at outcome {float(y[at]):.6g} "
        f"and decision {float(h[at]):.6g}. {trial.remedy}"
    )


def _check(problem: Problem) -> None:
    checks.program("`Problem(model=...)`", problem.model, "a NumPyro model")
    rule = "the name of a sample site"
    if not checks.instance("`Problem(outcome=...)`", problem.outcome, str, rule):
        raise InputError(f"`Problem(outcome=...)` is required: {rule}.")
    arguments = arguments_of(problem.model)
    if problem.observed is not None:
        checks.instance("`Problem(observed=...)`", problem.observed, str, "the name of an argument")
    elif is_conditioned(problem.model, problem.outcome):
        return _check_cost(problem)
    if problem.observations not in arguments.names and not arguments.open_ended:
        said = "outcome" if problem.observed is None else "observed"
        raise InputError(
            f"`Problem({said}={problem.observations!r})`: `{name_of(problem.model)}` has no "
            f"argument of that name to carry the observations; its arguments are "
            f"{some(arguments.names)}. If one of these carries them, say `observed=`."
        )
    _check_cost(problem)


def _check_cost(problem: Problem) -> None:
    if (problem.loss is None) == (problem.utility is None):
        came = "neither" if problem.loss is None else "both"
        raise InputError(
            f"`Problem(...)` takes either `loss=` or `utility=`; got {came}. A loss says what a "
            f"wrong decision costs, a utility what a right one is worth."
        )
    if problem.loss is not None:
        rule = "a function of (outcome, decision) or a loss such as `Tilted(0.2)`"
        checks.function("`Problem(loss=...)`", problem.loss, ("outcome", "decision"), rule)
        checks.hashed("`Problem(loss=...)`", problem.loss)
    if problem.utility is not None:
        kinds = (Utility, ExpUtility)
        checks.instance("`Problem(utility=...)`", problem.utility, kinds, "a `Utility(fn)`")
        checks.hashed("`Problem(utility=...)`", problem.utility)
    check_guide("`Problem(guide=...)`", problem.guide)


def check_guide(where: str, guide: Any) -> None:
    """An autoguide class, a guide function, or None."""
    if guide is not None and not (isinstance(guide, type) and issubclass(guide, AutoGuide)):
        checks.program(where, guide, "a NumPyro autoguide class or a guide function")


def checked_key(key: Any) -> Key:
    """A JAX random key, not a bare integer: no hidden conversions of seeds."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    raw = isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.shape == (2,)
    if (not typed and not raw) or (typed and key.shape != ()):
        raise InputError(
            f"`key` must be one JAX random key, such as `jax.random.key(0)`; "
            f"got {key if isinstance(key, int) else type(key).__name__}."
        )
    checked: Key = key if typed else jax.random.wrap_key_data(jnp.asarray(key))
    return checked
