"""Families of outcomes, and links between their mean and a sum of effects.

Each is there twice: as a function, and as the text that a program has in its place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtr
from scipy import special

from stakes._types import Array, Distribution

OfMean = Callable[[np.ndarray | float], np.ndarray | float]


class Link(NamedTuple):
    """How the mean follows from the sum of effects.

    Attributes:
        inverse: from the sum of effects, eta, to the mean.
        of: from a mean to the sum of effects.
        source: the inverse as a program writes it.
    """

    inverse: Callable[[Array], Array]
    of: OfMean
    source: str


def _share(inverse: Callable[[Array], Array], of: OfMean, source: str) -> Link:
    """The link of a mean between 0 and 1, which it never reaches.

    Rounding would otherwise give an outcome a probability of zero.
    """
    return Link(
        lambda eta: jnp.clip(inverse(eta), LEAST, 1 - LEAST),
        of,
        f"jnp.clip({source}, {LEAST}, 1 - {LEAST})",
    )


# Shares stay this far from 0 and 1: 32-bit floats cannot tell 1 - 1e-8 from 1.
LEAST = 1e-6
# The spread of effects where the link has no unit: times 2.5, a factor of 4.5 for a log.
UNITLESS = 0.6
LINKS: dict[str, Link] = {
    "identity": Link(lambda eta: eta, lambda mean: mean, "eta"),
    "log": Link(jnp.exp, np.log, "jnp.exp(eta)"),
    "logit": _share(jax.nn.sigmoid, special.logit, "jax.nn.sigmoid(eta)"),
    "probit": _share(ndtr, special.ndtri, "jax.scipy.special.ndtr(eta)"),
    "cloglog": _share(
        lambda eta: -jnp.expm1(-jnp.exp(eta)),
        lambda mean: np.log(-np.log1p(-mean)),
        "-jnp.expm1(-jnp.exp(eta))",
    ),
}
SHARES = ("logit", "probit", "cloglog")

Make = Callable[..., Distribution]


@final
@dataclass(frozen=True)
class Family:
    """A kind of outcome.

    Attributes:
        links: those that it may have, the usual one first.
        make: from the mean, the number of trials where there is one, and further parameters by
            name, to the distribution of an outcome.
        source: the same as a program writes it.
        rule: which outcomes there may be, in words.
        allows: whether each of some outcomes may be.
        parameters: name -> the function that makes its prior, and what the parameter is, in words.
            The scale of a `sigma` is in units of the outcomes' spread. Priors are made when they
            are asked
            for: importing this must not be the first use of JAX.
        scaled: whether the spread of the outcomes sets that of effects.
    """

    links: tuple[str, ...]
    make: Make
    source: str
    rule: str
    allows: Callable[[np.ndarray], np.ndarray]
    parameters: Mapping[str, tuple[Callable[[], Distribution], str]] = field(default_factory=dict)
    scaled: bool = False


def _whole(y: np.ndarray) -> np.ndarray:
    """Whether each outcome is a count."""
    return (y >= 0) & (y == np.round(y))


COUNT = "whole numbers of zero or more"
NOISE = {"sigma": (partial(dist.HalfNormal, 2.0), "the standard deviation of single outcomes")}
ALPHA = {
    "alpha": (partial(dist.Gamma, 2.0, 0.1), "the larger, the closer outcomes are to their mean")
}
GATE = {"gate": (partial(dist.Beta, 1.0, 3.0), "the share of zeros beyond those of the count")}

FAMILIES: dict[str, Family] = {
    "normal": Family(
        ("identity", "log"),
        lambda mean, sigma: dist.Normal(mean, sigma),
        "dist.Normal(mean, sigma)",
        "numbers",
        np.isfinite,
        NOISE,
        scaled=True,
    ),
    "student": Family(
        ("identity", "log"),
        lambda mean, sigma, nu: dist.StudentT(nu, mean, sigma),
        "dist.StudentT(nu, mean, sigma)",
        "numbers",
        np.isfinite,
        {
            **NOISE,
            "nu": (partial(dist.Gamma, 2.0, 0.1), "degrees of freedom: small for heavy tails"),
        },
        scaled=True,
    ),
    "lognormal": Family(
        ("identity",),
        lambda mean, sigma: dist.LogNormal(mean, sigma),
        "dist.LogNormal(mean, sigma)",
        "numbers above zero",
        lambda y: y > 0,
        {"sigma": (partial(dist.HalfNormal, 2.0), "the standard deviation of the logarithm")},
        scaled=True,
    ),
    "poisson": Family(
        ("log",), lambda mean: dist.Poisson(mean), "dist.Poisson(mean)", COUNT, _whole
    ),
    "negative binomial": Family(
        ("log",),
        lambda mean, alpha: dist.NegativeBinomial2(mean, alpha),
        "dist.NegativeBinomial2(mean, alpha)",
        COUNT,
        _whole,
        ALPHA,
    ),
    "zero-inflated poisson": Family(
        ("log",),
        lambda mean, gate: dist.ZeroInflatedPoisson(gate, mean),
        "dist.ZeroInflatedPoisson(gate, mean)",
        COUNT,
        _whole,
        GATE,
    ),
    "zero-inflated negative binomial": Family(
        ("log",),
        lambda mean, alpha, gate: dist.ZeroInflatedNegativeBinomial2(mean, alpha, gate=gate),
        "dist.ZeroInflatedNegativeBinomial2(mean, alpha, gate=gate)",
        COUNT,
        _whole,
        {**ALPHA, **GATE},
    ),
    "bernoulli": Family(
        SHARES,
        lambda mean: dist.Bernoulli(probs=mean),
        "dist.Bernoulli(probs=mean)",
        "0 or 1",
        lambda y: (y == 0) | (y == 1),
    ),
    "binomial": Family(
        SHARES,
        lambda mean, trials: dist.Binomial(trials, probs=mean),
        "dist.Binomial(trials, probs=mean)",
        COUNT,
        _whole,
    ),
    "gamma": Family(
        ("log",),
        lambda mean, alpha: dist.Gamma(alpha, alpha / mean),
        "dist.Gamma(alpha, alpha / mean)",
        "numbers above zero",
        lambda y: y > 0,
        ALPHA,
    ),
    "beta": Family(
        SHARES,
        lambda mean, phi: dist.Beta(mean * phi, (1 - mean) * phi),
        "dist.Beta(mean * phi, (1 - mean) * phi)",
        "numbers strictly between 0 and 1",
        lambda y: (y > 0) & (y < 1),
        {
            "phi": (
                partial(dist.Gamma, 2.0, 0.1),
                "the larger, the closer outcomes are to their mean",
            )
        },
    ),
    "ordinal": Family(
        ("identity",),
        lambda mean, cutpoints: dist.OrderedLogistic(mean, cutpoints),
        "dist.OrderedLogistic(mean, cutpoints)",
        "whole numbers from 0, or an ordered categorical column",
        _whole,
    ),
}


def typical(name: str, link: str, outcomes: np.ndarray, trials: np.ndarray | None) -> float:
    """Where the sum of effects lies, roughly: the link of the mean outcome.

    Args:
        name: of the family.
        link: its name.
        outcomes: those of the first table.
        trials: the number of trials of each; None for a family without.
    """
    if name == "ordinal":
        return 0.0
    if name == "lognormal":
        return float(np.log(outcomes).mean())
    mean = outcomes.mean() if trials is None else outcomes.sum() / trials.sum()
    if link in SHARES:
        mean = np.clip(mean, 0.02, 0.98)
    elif link == "log":
        mean = max(mean, 0.1 / len(outcomes), 1e-6)
    return float(LINKS[link].of(mean))


def spread(name: str, link: str, outcomes: np.ndarray) -> float:
    """Return the approximate spread of sums of effects.

    If effects are in the unit of the outcomes, it is the spread of the outcomes.

    Args:
        name: the family's name.
        link: the link's name.
        outcomes: the outcomes of the first table.
    """
    if link != "identity" or not FAMILIES[name].scaled:
        return UNITLESS
    return float(np.std(np.log(outcomes) if name == "lognormal" else outcomes)) or 1.0


def cutpoints_of(outcomes: np.ndarray) -> np.ndarray:
    """The limits between ordered categories that give each its share of the data.

    Examples:
        >>> import numpy as np
        >>> cutpoints_of(np.array([0, 1, 1, 2])).round(2).tolist()
        [-0.98, 0.98]
    """
    counts = np.bincount(outcomes.astype(int)) + 0.5
    return np.asarray(special.logit(counts.cumsum()[:-1] / counts.sum()))
