"""A decision problem: a model, the outcome it predicts, and what it costs to decide wrongly."""

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.autoguide import AutoGuide

from stakes import checks
from stakes._types import Array, Data, Key, Number, Program
from stakes.errors import InputError, name_of, some
from stakes.losses import Asked
from stakes.protocols import Criterion, Gain, Loss, Transform
from stakes.utilities import ExpUtility, Utility


@final
@dataclass(frozen=True, kw_only=True)
class Arguments:
    """A model's arguments by name."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    open_ended: bool


@final
@dataclass(frozen=True)
class Problem:
    """The three parts of a decision problem, and the family that approximates the posterior.

    Args:
        model: a NumPyro model.
        outcome: the sample site to decide about; the model argument of the same name carries
            its observations, and is `None` where they are to be predicted.
        loss: `loss(outcome, decision)`, elementwise.
        utility: a `Utility`, instead of a loss.
        guide: a NumPyro autoguide class or a guide function; mean-field normal by default.

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
    outcome: str
    loss: Loss | None = None
    utility: Utility | ExpUtility | None = None
    guide: Program | None = None

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        cost = f"{'loss' if self.utility is None else 'utility'}={self.criterion.title}"
        return f"Problem({name_of(self.model)}, outcome={self.outcome!r}, {cost})"

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

    def check_data(self, data: Data, *, needs_outcome: bool) -> dict[str, Any]:
        """The data as arrays, or an error that names the argument, the rule and the rows."""
        if not hasattr(data, "keys") or not hasattr(data, "__getitem__"):
            raise InputError(
                f"`data` must be a mapping from the model's arguments to arrays, such as "
                f"{{{', '.join(f'{n!r}: ...' for n in arguments_of(self.model).names)}}}; "
                f"got {type(data).__name__}."
            )
        given = {str(name): data[name] for name in data.keys()}  # noqa: SIM118
        self._check_names(given)
        if needs_outcome and given.get(self.outcome) is None:
            raise InputError(
                f"`data` has no {self.outcome!r}: a fit needs the observed outcomes. "
                f"To decide without them use `result.decide(...)`."
            )
        return {name: _checked_value(name, value) for name, value in given.items()}

    def _check_names(self, given: dict[str, Any]) -> None:
        arguments = arguments_of(self.model)
        unknown = [name for name in given if name not in arguments.names]
        if unknown and not arguments.open_ended:
            raise InputError(
                f"`data` has {some(unknown)}, which `{name_of(self.model)}` does not take; "
                f"its arguments are {some(arguments.names)}."
            )
        missing = [
            name for name in arguments.required if name not in given and name != self.outcome
        ]
        if missing:
            raise InputError(
                f"`data` lacks {some(missing)}, which `{name_of(self.model)}` needs; "
                f"it has {some(given)}."
            )

    def check_cost(self, outcome: Array, decision: Array) -> None:
        """Try the loss or utility on outcomes and decisions, and report what does not fit."""
        outcome, decision = jnp.asarray(outcome), jnp.asarray(decision)
        trial = self.criterion.trial(outcome, decision)
        expected = jnp.broadcast_shapes(outcome.shape, decision.shape)
        if trial.values.shape != expected:
            raise InputError(
                f"{trial.name} must work elementwise and not sum or average: for outcomes and "
                f"decisions of shape {expected} it returned shape {trial.values.shape}."
            )
        finite = "Keep it finite for every outcome that the model may predict."
        for rule, broken, remedy in (
            ("not finite", ~jnp.isfinite(trial.values), finite),
            (trial.rule, trial.broken, trial.remedy),
        ):
            if bool(broken.any()):
                at = tuple(int(i) for i in np.argwhere(np.asarray(broken))[0])
                y, h = jnp.broadcast_arrays(outcome, decision)
                raise InputError(
                    f"{trial.name} is {rule} ({float(trial.values[at])}) at outcome "
                    f"{float(y[at]):.6g} and decision {float(h[at]):.6g}. {remedy}"
                )


def _check(problem: Problem) -> None:
    checks.program("`Problem(model=...)`", problem.model, "a NumPyro model")
    rule = "the name of a sample site"
    checks.instance("`Problem(outcome=...)`", problem.outcome, str, rule)
    arguments = arguments_of(problem.model)
    if problem.outcome not in arguments.names and not arguments.open_ended:
        raise InputError(
            f"`Problem(outcome={problem.outcome!r})`: `{name_of(problem.model)}` has no argument "
            f"of that name to carry the observations; its arguments are {some(arguments.names)}."
        )
    if (problem.loss is None) == (problem.utility is None):
        came = "neither" if problem.loss is None else "both"
        raise InputError(
            f"`Problem(...)` takes either `loss=` or `utility=`; got {came}. A loss says what a "
            f"wrong decision costs, a utility what a right one is worth."
        )
    if problem.loss is not None:
        rule = "a function of (outcome, decision) or a loss such as `Tilted(0.2)`"
        checks.function("`Problem(loss=...)`", problem.loss, ("outcome", "decision"), rule)
    try:
        hash(problem.loss), hash(problem.utility)
    except TypeError:
        raise InputError(
            "`Problem(...)`: a loss or utility must be hashable, so that what was compiled for it "
            "can be reused; make its dataclass `frozen=True`."
        ) from None
    if problem.utility is not None:
        kinds = (Utility, ExpUtility)
        checks.instance("`Problem(utility=...)`", problem.utility, kinds, "a `Utility(fn)`")
    guide = problem.guide
    if guide is not None and not (isinstance(guide, type) and issubclass(guide, AutoGuide)):
        rule = "a NumPyro autoguide class or a guide function"
        checks.program("`Problem(guide=...)`", guide, rule)


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


def arguments_of(model: Program) -> Arguments:
    kinds = inspect.Parameter
    parameters = inspect.signature(model).parameters.values()
    named = [p for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    return Arguments(
        names=tuple(p.name for p in named),
        required=tuple(p.name for p in named if p.default is kinds.empty),
        open_ended=any(p.kind is kinds.VAR_KEYWORD for p in parameters),
    )


def _checked_value(name: str, value: Any) -> Any:
    """Arrays as arrays, finite and not empty; numbers, strings and None as they are."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        if isinstance(value, float | np.floating) and not np.isfinite(value):
            raise InputError(f"`data[{name!r}]` must be finite; got {value}.")
        return value.item() if isinstance(value, np.generic) else value
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"`data[{name!r}]` must hold numbers; got an array of {array.dtype}. "
            f"Encode categories as integers."
        )
    if array.size == 0:
        raise InputError(f"`data[{name!r}]` has zero rows: its shape is {array.shape}.")
    held = jnp.asarray(array)
    if array.dtype.kind in "iu" and not np.array_equal(np.asarray(held), array):
        raise InputError(
            f"`data[{name!r}]` has whole numbers that {held.dtype} cannot hold; renumber them, or "
            f"enable double precision in JAX."
        )
    bad = ~np.isfinite(np.asarray(held))
    if bad.any():
        rows = np.unique(np.argwhere(bad)[:, 0]) if array.ndim else np.array([0])
        first = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        raise InputError(
            f"`data[{name!r}]` has {int(bad.sum())} values that are NaN or infinite"
            f"{'' if not np.isfinite(array).all() else f' in {held.dtype}'}, in rows "
            f"{first}. Drop or fill them; to leave entries out of the fit, fill them and mask the "
            f"outcome site."
        )
    return held
