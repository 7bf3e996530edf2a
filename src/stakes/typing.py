"""The few types that every layer shares."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
from numpyro.distributions import Distribution

Array: TypeAlias = jax.Array
Key: TypeAlias = jax.Array
Params: TypeAlias = dict[str, Any]
"""Unconstrained variational parameters by name: arrays, or trees of them."""
Batch: TypeAlias = Mapping[str, Any]
"""Plate name -> the members in this minibatch; plates that are not subsampled are left out."""
Data: TypeAlias = Mapping[str, Any]
"""Model argument -> value; the argument named like the outcome carries the observations."""

Loss: TypeAlias = Callable[[Array, Array], Array]
"""`loss(outcome, decision)`, elementwise, never negative: smaller is better."""

Rate: TypeAlias = float | Array
"""A number, which may be traced."""

__all__ = [
    "Array",
    "Batch",
    "Data",
    "Distribution",
    "ExpectedLoss",
    "Key",
    "Loss",
    "Outcome",
    "Params",
    "Rate",
    "SolvedLoss",
]


class Outcome(Protocol):
    """What a loss may ask of a predicted outcome; each method may raise `NoClosedForm`."""

    def mean(self) -> Array: ...

    def variance(self) -> Array: ...

    def tails(self, decision: Array, above: float, below: float) -> Array:
        """E above·(y-h)+ + below·(h-y)+: what falling short and going over cost."""
        ...

    def cumulant(self, t: float) -> Array:
        """log E exp(t (y - E y)): the log moment generating function about the mean."""
        ...

    def log_tails(self, decision: Array, above: Rate, below: Rate) -> Array:
        """log E exp(-above·(y-h)+ - below·(h-y)+)."""
        ...

    def log_kernel(self, decision: Array, width: Rate) -> Array:
        """log E exp(-(y-h)²/width)."""
        ...

    def quantile(self, level: float) -> Array: ...

    def log_mgf(self, t: float) -> Array:
        """log E exp(t y)."""
        ...


@runtime_checkable
class ExpectedLoss(Protocol):
    """A loss that knows its own expectation; each method may raise `NoClosedForm`."""

    def __call__(self, outcome: Array, decision: Array) -> Array: ...

    def expected(self, outcome: Outcome, decision: Array) -> Array:
        """E ℓ(y, h)."""
        ...

    def log_expected_utility(self, outcome: Outcome, decision: Array, scale: Rate) -> Array:
        """log E exp(-ℓ(y, h)/scale)."""
        ...


@runtime_checkable
class SolvedLoss(ExpectedLoss, Protocol):
    """A loss that knows its own best decision, too."""

    def bayes_decision(self, draws: Array) -> Array:
        """The decision of least average loss over draws of the outcome (leading axis)."""
        ...

    def exact_decision(self, outcome: Outcome) -> Array:
        """The decision of least expected loss."""
        ...
