"""A decision problem: a model, the outcome it predicts, and what it costs to decide wrongly."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.autoguide import AutoGuide

from stakes import checks, varying
from stakes._types import Data, Key, Number, Program
from stakes.aim import Aim
from stakes.arguments import (
    Columns,
    arguments_of,
    by_name,
    checked_value,
    in_order,
    is_conditioned,
    without,
)
from stakes.errors import InputError, name_of, some
from stakes.losses import Asked
from stakes.protocols import Criterion, Gain, Loss, Space, Transform
from stakes.spaces import Real
from stakes.utilities import ExpUtility, Utility
from stakes.vectors import Vector

FAR = 1e30
"""Beyond all limits of decisions."""


@final
@dataclass(frozen=True)
class Argument:
    """An argument of the model that is decided about, and where its decisions may lie."""

    name: str
    space: Space

    def __repr__(self) -> str:
        return f"{{{self.name!r}: {self.space!r}}}"


@final
@dataclass(frozen=True)
class Problem:
    """The three parts of a decision problem, and the family that approximates the posterior.

    Args:
        model: a NumPyro model.
        outcome: the sample site to decide about; the model argument of the same name carries
            its observations, and is `None` where they are to be predicted. It may be left out
            for a model made by `formula`. Where the model has no such argument, the site is a
            latent or deterministic one: the decision is then about a parameter.
        loss: `loss(outcome, decision)`, elementwise. Further arguments that are given by name
            alone, as in `loss(outcome, decision, *, price)`, come from the data.
        utility: a `Utility`, instead of a loss.
        decision: where decisions may lie: `Real()` by default, `Interval(low, high)`,
            `Integers(low, high)`, `OneOf(labels)` or a `Vector` of these. A `CostTable` and an
            `IntervalScore` say so themselves. Where the
            decision changes the outcome, the argument of the model that carries it, such as
            `{"price": Interval(1, 10)}`: the data has the prices that were set.
        per: outcomes that share one decision: those of each member of a plate, of each group by a
            data argument, or "all"; by default each outcome has its own.
        together: whether all numbers of an event, as of a `MultivariateNormal` or after
            `.to_event(1)`, are one outcome: the loss is a function of vectors, along the last axis
            of the outcome, and there is one decision for each of them.
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
    decision: Any = None
    per: str | None = None
    together: bool = False

    def __post_init__(self) -> None:
        said: Any = self.outcome
        if isinstance(said, str) and not said:
            object.__setattr__(self, "outcome", getattr(self.model, "response", said))
        object.__setattr__(self, "model", by_name(self.model))
        object.__setattr__(self, "guide", by_name(self.guide))
        if isinstance(self.decision, Mapping | str):
            object.__setattr__(self, "decision", _argument(self.decision))
        _check(self)

    def __repr__(self) -> str:
        cost = f"{'loss' if self.utility is None else 'utility'}={self.criterion.title}"
        where = "" if self.decision is None else f", decision={self.decision!r}"
        where += "" if self.per is None else f", per={self.per!r}"
        return f"Problem({name_of(self.model)}, outcome={self.outcome!r}, {cost}{where})"

    @property
    def aim(self) -> Aim:
        """Where decisions may lie, and what they are judged by."""
        per = None if self.per == "row" else self.per
        return Aim(self.criterion, self.space, per, self.together)

    @property
    def space(self) -> Space:
        """Where decisions may lie."""
        loss = self.loss if self.utility is None else self.utility.loss
        own = None if loss is None else Asked(loss).space
        stated = self.decision
        if isinstance(stated, Argument):
            return stated.space
        return stated or own or Real()

    @property
    def action(self) -> str | None:
        """The model's argument that is decided about, where decisions change outcomes."""
        return self.decision.name if isinstance(self.decision, Argument) else None

    @property
    def beside_model(self) -> tuple[str, ...]:
        """Names in the data that loss or limits of decisions ask for, but the model does not."""
        arguments = arguments_of(self.model)
        asked = self.named_needs
        return tuple(n for n in asked if n not in arguments.names and not arguments.open_ended)

    @property
    def named_needs(self) -> list[str]:
        """What the data may have for loss and decisions."""
        named = [getattr(need, "name", need) for need in self.aim.needs]
        return [name for name in named if isinstance(name, str)]

    @cached_property
    def program(self) -> Program:
        """The model, as it is called with the data."""
        return without(self.model, self.beside_model)

    @property
    def some_decisions(self) -> tuple[float, ...]:
        """From the least to the largest, where decisions change outcomes; none otherwise."""
        if self.action is None:
            return ()
        if self.space.actions is not None:
            return self.space.actions
        low, high = (float(self.space.inside(jnp.asarray(end))) for end in (-FAR, FAR))
        return tuple(np.linspace(low, high, 5))

    @property
    def about_latent(self) -> bool:
        """Whether nothing carries observations of the outcome: it is latent, or follows from it."""
        arguments = arguments_of(self.model)
        carried = self.observed is not None or self.outcome in arguments.names
        conditioned = is_conditioned(self.model, self.outcome)
        return not (carried or arguments.open_ended or conditioned)

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

    def gain(
        self,
        transform: Transform | None,
        scale: Number | None,
        columns: varying.Columns | None = None,
        loss: Loss | None = None,
    ) -> Gain:
        """What a calibrated fit maximises: the loss on the scale M, or the utility as it is.

        For some cases, with their values in place, where `columns` are given; with this `loss`
        in place of the problem's, which is the same but for numbers that are traced.
        """
        if self.utility is not None:
            return self.utility if columns is None else self.utility.at(columns)
        loss = loss or self.loss
        assert loss is not None
        assert transform is not None
        assert scale is not None
        loss = loss if columns is None else Asked(loss).at(columns).loss
        return transform(loss, scale)

    def check_single(self, where: str) -> None:
        """Refuse decisions with several parts, or about vectors, where numbers are needed."""
        reason = self.why_not_single(where)
        if reason is not None:
            raise InputError(reason)

    def why_not_single(self, where: str, *, parts: bool = False) -> str | None:
        """Why it is nothing for what takes single numbers; decisions may have `parts`."""
        if self.together:
            return (
                f"{where} is for outcomes that are single numbers; with `together=True` they are "
                f"vectors. Use `calibrate`, `decide` and `compare`."
            )
        if isinstance(self.space, Vector) and not parts:
            return (
                f"{where} is for decisions that are single numbers; those in `{self.space!r}` have "
                f"several parts. Use `calibrate`, `choose`, `decide` and `compare`."
            )
        return None

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
        if self.action is not None and not needs_outcome:
            given.setdefault(self.action, self._any_decision(given))
        self._check_names(given)
        conditioned = self.observed is None and is_conditioned(self.model, self.outcome)
        known = conditioned or self.about_latent
        if needs_outcome and given.get(self.observations) is None and not known:
            raise InputError(
                f"`data` has no {self.observations!r}: a fit needs the observed outcomes. "
                f"To decide without them use `result.decide(...)`."
            )
        for name, order in (columns or {}).items():
            if name in given:
                given[name] = in_order(name, given[name], order)
        return {n: checked_value(n, value, groups=n == self.per) for n, value in given.items()}

    def _any_decision(self, given: Mapping[str, Any]) -> np.ndarray:
        """Stands in for decisions that are still to be made, one for each row."""
        rows = [np.shape(value)[0] for value in given.values() if np.ndim(value)]
        if not rows:
            raise InputError(
                f"`data` has no {self.action!r} and no other argument with a row for each case; "
                f"give any values of {self.action!r}: they are decided about."
            )
        return np.full(rows[0], float(self.space.inside(jnp.zeros(()))))

    def _check_names(self, given: dict[str, Any]) -> None:
        arguments = arguments_of(self.model)
        allowed = (*arguments.names, *self.named_needs)
        unknown = [name for name in given if name not in allowed]
        if unknown and not arguments.open_ended:
            raise InputError(
                f"`data` has {some(unknown)}, which `{name_of(self.model)}` does not take; "
                f"its arguments are {some(arguments.names)}."
            )
        asked = [need for need in self.aim.needs if isinstance(need, str) and need not in given]
        if asked:
            raise InputError(
                f"`data` lacks {some(asked)}, which the loss or the limits of decisions ask for by "
                f"name; it has {some(given)}."
            )
        missing = [
            name for name in arguments.required if name not in given and name != self.observations
        ]
        if missing:
            raise InputError(
                f"`data` lacks {some(missing)}, which `{name_of(self.model)}` needs; "
                f"it has {some(given)}."
            )


def _check(problem: Problem) -> None:
    checks.program("`Problem(model=...)`", problem.model, "a NumPyro model")
    rule = "the name of a sample site"
    if not checks.instance("`Problem(outcome=...)`", problem.outcome, str, rule):
        raise InputError(f"`Problem(outcome=...)` is required: {rule}.")
    arguments = arguments_of(problem.model)
    if problem.observed is not None:
        checks.instance("`Problem(observed=...)`", problem.observed, str, "the name of an argument")
        if problem.observed not in arguments.names and not arguments.open_ended:
            raise InputError(
                f"`Problem(observed={problem.observed!r})`: `{name_of(problem.model)}` has no "
                f"argument of that name to carry the observations; its arguments are "
                f"{some(arguments.names)}."
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
        takes = ("outcome", "decision")
        checks.function("`Problem(loss=...)`", problem.loss, takes, rule, others=True)
        checks.hashed("`Problem(loss=...)`", problem.loss)
    if problem.utility is not None:
        kinds = (Utility, ExpUtility)
        checks.instance("`Problem(utility=...)`", problem.utility, kinds, "a `Utility(fn)`")
        checks.hashed("`Problem(utility=...)`", problem.utility)
    check_guide("`Problem(guide=...)`", problem.guide)
    _check_together(problem)
    _check_space(problem)


def _check_space(problem: Problem) -> None:
    own = None if problem.loss is None else Asked(problem.loss).space
    if problem.per is not None:
        rule = "the name of a plate or of a data argument, 'all' or 'row'"
        checks.instance("`Problem(per=...)`", problem.per, str, rule)
        if isinstance(problem.space, Vector) and problem.per != "row":
            raise InputError(
                f"`Problem(per={problem.per!r})`: decisions with several parts are not shared; "
                f"leave `per` out, or decide about single numbers."
            )
        if problem.space.needs and problem.per != "row":
            raise InputError(
                f"`Problem(per={problem.per!r})`: outcomes that share a decision share its limits, "
                f"but those of `{problem.space!r}` differ from case to case."
            )
    if problem.decision is None:
        return
    if isinstance(problem.decision, Argument):
        _check_action(problem, problem.decision)
        return
    known = (
        "`Real()`, `Interval(low, high)`, `Integers(low, high)`, `OneOf(labels)` or a `Vector` of "
        "these"
    )
    checks.choice("`Problem(decision=...)`", problem.decision, Space, known)
    _check_parts(problem)
    if isinstance(own, Vector):
        names = getattr(problem.decision, "names", None)
        if names != own.names:
            raise InputError(
                f"`Problem(decision={problem.decision!r})`: `{problem.criterion.title}` decides "
                f"about `Vector({', '.join(f'{name}=...' for name in own.names)})`."
            )
        return
    if own is not None and own != problem.decision:
        raise InputError(
            f"`Problem(decision={problem.decision!r})`: the actions of the loss are {own!r}; leave "
            f"`decision` out."
        )


def _check_together(problem: Problem) -> None:
    """Refuse a loss of single numbers where outcomes are vectors."""
    checks.flags(problem, "together")
    if not problem.together:
        return
    loss = problem.loss if problem.utility is None else problem.utility.loss
    if loss is not None and Asked(loss).of_numbers:
        raise InputError(
            f"`Problem(together=True)`: `{Asked(loss).title}` takes single numbers. Give a "
            f"function of (outcome, decision) that takes vectors, along the last axis of the "
            f"outcome."
        )
    if problem.about_latent:
        raise InputError(
            f"`Problem(together=True)` is for outcomes that are observed; {problem.outcome!r} is "
            f"not. Make what is decided about a `numpyro.deterministic` site of single numbers."
        )


def _check_parts(problem: Problem) -> None:
    """Refuse a loss of single numbers where a decision has several parts."""
    loss = problem.loss if problem.utility is None else problem.utility.loss
    if not isinstance(problem.space, Vector) or loss is None:
        return
    asked = Asked(loss)
    if asked.of_numbers and not isinstance(asked.space, Vector):
        raise InputError(
            f"`Problem(decision={problem.decision!r})`: `{asked.title}` takes single numbers. Give "
            f"a function of (outcome, decision) that takes the parts of the decision, "
            f"`{', '.join(problem.space.names)} = decision`."
        )


SUCH_AS = "such as {'price': Interval(1, 10)}"


def _argument(stated: Mapping[str, Any] | str) -> Argument:
    if not isinstance(stated, Mapping) or len(stated) != 1:
        rule = f"a space, or one argument of the model and its space, {SUCH_AS}"
        raise checks.refused("`Problem(decision=...)`", rule, stated)
    [(name, space)] = stated.items()
    known = "`Interval(low, high)`, `Integers(low, high)` or `OneOf(labels)`"
    checks.choice(f"`Problem(decision=...)`: that of {name!r}", space, Space, known)
    return Argument(str(name), space)


def _check_action(problem: Problem, stated: Argument) -> None:
    """Decisions that change outcomes: an argument of the model, and a space with limits."""
    where, name, space = "`Problem(decision=...)`", stated.name, stated.space
    arguments = arguments_of(problem.model)
    if name == problem.outcome or (name not in arguments.names and not arguments.open_ended):
        raise InputError(
            f"{where}: `{name_of(problem.model)}` has no argument {name!r} to decide about; its "
            f"arguments are {some(arguments.names)}."
        )
    if isinstance(space, Vector):
        raise InputError(
            f"{where}: decisions about {name!r} must be single numbers; got {space!r}."
        )
    if space.needs:
        raise InputError(
            f"{where}: the limits of {name!r} must be numbers, the same for all; got {space!r}."
        )
    if not space.bounded:
        raise InputError(
            f"{where}: decisions about {name!r} need limits, between which the best one is looked "
            f"for, {SUCH_AS}; got {space!r}."
        )


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
