"""A decision problem: a model, the outcome it predicts, and what it costs to decide wrongly."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from stakes import checks, varying
from stakes._types import Data, Model, Number
from stakes.arguments import Columns, arguments_of, by_name, is_conditioned, without
from stakes.decisions import DecisionTask
from stakes.errors import InputError, name_of
from stakes.losses import AnyLoss
from stakes.problem.validation import Argument, argument, check, checked_data
from stakes.protocols import Criterion, Gain, Loss, Space, Transform
from stakes.spaces import Real
from stakes.utilities import ExpUtility, Utility

# Beyond all limits of decisions, and finite in single precision.
FAR = 1e30


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
            `IntervalScore` bring their own space. Where the decision changes the outcome, name the
            argument of the model that carries it, as in `{"price": Interval(1, 10)}`; the data then
            have the prices that were set.
        per: which outcomes share a decision: the name of a plate, for those of each of its members;
            of a data argument, for those of each of its groups; or "all". By default each outcome
            has its own.
        together: whether all numbers of an event, as of a `MultivariateNormal` or after
            `.to_event(1)`, are one outcome: the loss is a function of vectors, along the last axis
            of the outcome, and there is one decision for each of them.
        guide: a NumPyro autoguide class or a guide function; mean-field normal by default.
        observed: the model argument that carries the observations, if its name is not that of the
            site. A model that has them already, by `handlers.condition`, needs none.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, stakes
        >>> def model(x, y=None):
        ...     slope = numpyro.sample("slope", dist.Normal(0, 1))
        ...     with numpyro.plate("row", len(x)):
        ...         numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)
        >>> stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
        Problem(model, outcome='y', loss=Tilted(q=0.2))
    """

    model: Model
    _: KW_ONLY
    outcome: str = ""
    loss: Loss | None = None
    utility: Utility | ExpUtility | None = None
    guide: Model | None = None
    observed: str | None = None
    decision: Any = None
    per: str | None = None
    together: bool = False

    def __post_init__(self) -> None:
        stated: Any = self.outcome
        if isinstance(stated, str) and not stated:
            checks.assign(self, outcome=getattr(self.model, "response", stated))
        checks.assign(self, model=by_name(self.model), guide=by_name(self.guide))
        if isinstance(self.decision, Mapping | str):
            checks.assign(self, decision=argument(self.decision))
        check(self)

    def __repr__(self) -> str:
        cost = f"{self.criterion.argument}={self.criterion.title}"
        where = "" if self.decision is None else f", decision={self.decision!r}"
        where += "" if self.per is None else f", per={self.per!r}"
        return f"Problem({name_of(self.model)}, outcome={self.outcome!r}, {cost}{where})"

    @property
    def task(self) -> DecisionTask:
        """Where decisions may lie, and what they are judged by."""
        per = None if self.per == "row" else self.per
        return DecisionTask(self.criterion, self.space, per, self.together)

    @property
    def space(self) -> Space:
        """Where decisions may lie."""
        if self.argument is not None:
            return self.argument.space
        return self.decision or self.criterion.space or Real()

    @property
    def argument(self) -> Argument | None:
        """The model's argument that is decided about, and where its decisions may lie."""
        return self.decision if isinstance(self.decision, Argument) else None

    @property
    def action(self) -> str | None:
        """The model's argument that is decided about, where decisions change outcomes."""
        return None if self.argument is None else self.argument.name

    @property
    def beside_model(self) -> tuple[str, ...]:
        """Names in the data that the loss or the decision space needs, but the model does not."""
        arguments = arguments_of(self.model)
        asked = self.named_needs
        return tuple(n for n in asked if n not in arguments.names and not arguments.open_ended)

    @property
    def named_needs(self) -> list[str]:
        """Names in the data that the loss or the decision space may use."""
        named = [need if isinstance(need, str) else need.name for need in self.task.needs]
        return [name for name in named if name is not None]

    @cached_property
    def program(self) -> Model:
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
        return AnyLoss(self.loss)

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
        loss = loss if columns is None else AnyLoss(loss).at(columns).loss
        return transform(loss, scale)

    @property
    def why_not_judged(self) -> str | None:
        """Why the data cannot say how good decisions have been; None where they can."""
        if self.about_latent:
            return (
                f"Decisions about {self.outcome!r}, which is never observed, cannot be judged by "
                f"data: they rest on the model alone."
            )
        if self.action is not None:
            return (
                f"Decisions about {self.action!r} change the outcome, and the outcomes in the data "
                f"happened at the decisions that were made: they cannot say what other decisions "
                f"would have led to. Try other decisions to find out."
            )
        return None

    def check_single(self, where: str) -> None:
        """Refuse decisions with several parts, or about vectors, where numbers are needed.

        Args:
            where: what needs them, for the message.
        """
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
        if self.space.axes and not parts:
            return (
                f"{where} is for decisions that are single numbers; those in `{self.space!r}` have "
                f"several parts. Use `calibrate`, `choose`, `decide` and `compare`."
            )
        return None

    def check_data(
        self, data: Data, *, needs_outcome: bool, columns: Mapping[str, Columns] | None = None
    ) -> Data:
        """The data as arrays, or an error that names the argument, the rule and the rows.

        Tables with named columns are put into the order of `columns`, as `columns_of` found them
        in the data of the fit.
        """
        return checked_data(self, data, needs_outcome=needs_outcome, columns=columns)
