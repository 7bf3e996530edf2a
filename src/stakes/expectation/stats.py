"""Statistics of outcome distributions that losses need, one function each.

Each function dispatches on the type of the NumPyro distribution; an unknown type raises
`NoClosedForm`, and the next best expectation is taken. A new outcome distribution takes a handful
of `register` lines, in `families` or in your own code: with `mean` and `excess` a quantile loss has
its expectation, with `cdf` its best decision.

Here (y-h)+ is y - h where that is positive, and zero elsewhere.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import jax.numpy as jnp
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    TransformedDistribution,
    constraints,
)

from stakes import checks
from stakes._types import Array, Number
from stakes.errors import NoClosedForm
from stakes.expectation.sums import Rule

if TYPE_CHECKING:
    from functools import _SingleDispatchCallable

Question: TypeAlias = "_SingleDispatchCallable[Array]"
"""One of the functions below."""
Answer = TypeVar("Answer", bound=Callable[..., Array])


@singledispatch
def mean(outcome: Distribution) -> Array:
    """E y."""
    _check(outcome)
    try:
        return outcome.mean
    except NotImplementedError:
        raise unknown("mean", outcome) from None


@singledispatch
def variance(outcome: Distribution) -> Array:
    """E (y - E y)²; unknown for an angle, whose variance NumPyro measures around the circle."""
    _check(outcome)
    if outcome.support is constraints.circular:
        raise unknown("variance", outcome)
    try:
        return outcome.variance
    except NotImplementedError:
        raise unknown("variance", outcome) from None


@singledispatch
def cdf(outcome: Distribution, value: Array) -> Array:
    """P(y ≤ value)."""
    _check(outcome)
    try:
        return outcome.cdf(jnp.floor(value) if is_discrete(outcome) else value)
    except NotImplementedError:
        raise unknown("distribution function", outcome) from None


@singledispatch
def below(outcome: Distribution, value: Array) -> Array:
    """P(y < value), which is less than the distribution function where a single point has mass."""
    return cdf(outcome, jnp.ceil(value) - 1 if is_discrete(outcome) else value)


@singledispatch
def log_mass(outcome: Distribution, count: Array) -> Array:
    """The log probability of a value in the support of a discrete outcome."""
    _check(outcome)
    return outcome.log_prob(count)


@singledispatch
def log_density(outcome: Distribution, value: Array) -> Array:
    """The log density of a continuous outcome, with slopes that are right."""
    density: Array = outcome.log_prob(value)
    return density


@singledispatch
def excess(outcome: Distribution, decision: Array) -> Array:
    """E (y-h)+, where E y is finite.

    What the outcome exceeds the decision by, on average. With the mean it gives `tails`.
    """
    raise unknown("expected excess", outcome)


@singledispatch
def square_tails(outcome: Distribution, decision: Array, above: Number, below: Number) -> Array:
    """E above·((y-h)+)² + below·((h-y)+)²."""
    raise unknown("expected squares above and below", outcome)


@singledispatch
def tails(outcome: Distribution, decision: Array, above: float, below: float) -> Array:
    """E above·(y-h)+ + below·(h-y)+: infinite where E y is infinite or does not exist."""
    centre, more = mean(outcome), excess(outcome, decision)
    return jnp.where(
        jnp.isfinite(centre), (above + below) * more + below * (decision - centre), jnp.inf
    )


@singledispatch
def least_tails(outcome: Distribution, above: float, below: float) -> Array:
    """The least value of `tails` over all decisions."""
    raise unknown("least expected excess", outcome)


@singledispatch
def cumulant(outcome: Distribution, t: float) -> Array:
    """log E exp(t (y - E y)); infinite where that does not exist."""
    raise unknown("moment generating function", outcome)


@singledispatch
def log_tails(outcome: Distribution, decision: Array, above: Number, below: Number) -> Array:
    """log E exp(-above·(y-h)+ - below·(h-y)+)."""
    raise unknown("exponential tails", outcome)


@singledispatch
def log_kernel(outcome: Distribution, decision: Array, width: Number) -> Array:
    """log E exp(-(y-h)²/width)."""
    raise unknown("Gaussian kernel", outcome)


@singledispatch
def best_in_log_tails(outcome: Distribution, above: Number, below: Number) -> Array:
    """The decision at which `log_tails` is largest."""
    raise unknown("best decision of exponential tails", outcome)


@singledispatch
def most_log_tails(outcome: Distribution, above: Number, below: Number) -> Array:
    """The largest value of `log_tails` over all decisions."""
    raise unknown("largest exponential tails", outcome)


@singledispatch
def best_in_log_kernel(outcome: Distribution, width: Number) -> Array:
    """The decision at which `log_kernel` is largest."""
    raise unknown("best decision of a Gaussian kernel", outcome)


Widen: TypeAlias = Callable[[Array], Array]
"""Lays out what each case has, such as a decision, beside all components."""


class Components(NamedTuple):
    """What a mixture is made of."""

    weights: Array
    """Along the last axis."""
    distributions: tuple[Distribution, ...]
    side_by_side: bool = False
    """Whether there is one distribution, which has all components along its last axis."""

    def answers(self, question: Callable[[Distribution, Widen], Array]) -> Array:
        """Of all components, along a last axis."""
        if self.side_by_side:
            [stacked] = self.distributions
            return question(stacked, lambda value: value[..., None] if jnp.ndim(value) else value)
        answers = [question(part, lambda value: value) for part in self.distributions]
        return jnp.stack(jnp.broadcast_arrays(*answers), axis=-1)


@singledispatch
def components(outcome: Distribution) -> Components | None:
    """The components of a mixture; None for an outcome that is not a mixture."""
    _check(outcome)
    return None


class Ends(NamedTuple):
    """The least and the largest value of a support; None where it has no such end."""

    lower: Number | None
    upper: Number | None


class LocationScale(NamedTuple):
    """An outcome that is a + b x, for an outcome x."""

    start: Array
    slope: Array
    of: Distribution

    def at(self, x: Array) -> Array:
        return self.start + self.slope * x

    def back(self, value: Array) -> Array:
        """From y to x."""
        return (value - self.start) / self.slope


@singledispatch
def line(outcome: Distribution) -> LocationScale | None:
    """The outcome that this one is a shifted and scaled version of; None where there is none.

    Its own support is not to be asked: NumPyro takes every slope that is traced to be positive.
    """
    _check(outcome)
    return None


def line_of_counts(outcome: Distribution) -> LocationScale | None:
    """The same if that is discrete; the values of this one then lie the slope apart."""
    behind = line(outcome)
    return behind if behind is not None and is_discrete(behind.of) else None


@singledispatch
def few_values(outcome: Distribution) -> int | None:
    """How many values the outcome can take, where its type says so; they are 0, 1, ..."""
    _check(outcome)
    return None


@singledispatch
def largest_value(outcome: Distribution) -> Array | None:
    """The largest count, where there are many; None where they have no end."""
    _check(outcome)
    return None


def is_discrete(outcome: Distribution) -> bool:
    """Whether the outcome is discrete; also if its arrays have draws of θ along a leading axis."""
    _check(outcome)
    if isinstance(outcome, TransformedDistribution):
        return False  # no transform leads to whole numbers
    return bool(outcome.support.is_discrete)


def _check(outcome: Distribution) -> None:
    checks.instance("`outcome`", outcome, Distribution, "a NumPyro distribution")


def unknown(question: str, outcome: Distribution) -> NoClosedForm:
    _check(outcome)
    return NoClosedForm(f"No closed form is known for the {question} of {type(outcome).__name__}.")


def masses(outcome: Distribution, values: Array) -> Rule:
    """Log probabilities of counts: -inf outside the support, where a legal count stands in."""
    lowest = smallest_value(outcome)
    inside = outcome.support(values) & (values >= lowest)
    legal = jnp.where(inside, values, lowest)
    log_masses = log_mass(outcome, legal)
    return Rule(legal, jnp.where(inside, log_masses, -jnp.inf))


def ends(outcome: Distribution) -> Ends:
    """The ends of the support, where it has any."""
    return Ends(*(getattr(outcome.support, f"{name}_bound", None) for name in Ends._fields))


def parameter(outcome: Distribution, name: str) -> Array | None:
    """A parameter such as `loc`, where the distribution has it."""
    value: Array | None = getattr(outcome, name, None)
    return value


def smallest_value(outcome: Distribution) -> Array:
    """The least value of a discrete outcome: zero, unless its support begins elsewhere."""
    lower = ends(outcome).lower
    return jnp.asarray(0 if lower is None else lower, jnp.result_type(float))


def last_value(outcome: Distribution) -> Array | None:
    """The largest value of a discrete outcome; None where there is no end to them."""
    largest: Number | None = largest_value(outcome)
    if largest is None:
        largest = ends(outcome).upper
    return None if largest is None else jnp.asarray(largest, jnp.result_type(float))


def bare(outcome: Distribution) -> Distribution:
    """Without wrappers that only repeat it."""
    while isinstance(outcome, ExpandedDistribution):
        outcome = outcome.base_dist
    return outcome


def answers(
    kind: type[Distribution], view: Callable[[Distribution], object | None], otherwise: type
) -> Callable[[Question], Callable[[Answer], Answer]]:
    """A decorator that registers what is known of some outcomes of a kind.

    Args:
        view: what the answer is computed from; None for the other outcomes of the kind.
        otherwise: the kind whose answer serves these others; `object` for that of any outcome.
    """

    def of(question: Question) -> Callable[[Answer], Answer]:
        def register(answer: Answer) -> Answer:
            @question.register(kind)
            def _(outcome: Distribution, *arguments: Number) -> Array:
                part = view(outcome)
                if part is None:
                    return question.dispatch(otherwise)(outcome, *arguments)
                return answer(part, *arguments)

            return answer

        return register

    return of
