"""What is learned, and its priors: weakly informative, scaled to the data, each to be replaced.

The scale of an effect is such that two and a half standard deviations of the outcome are within
reach of one of the predictor, as in rstanarm: a prior of that width rules out the absurd alone.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from stakes._types import Array, Distribution
from stakes.errors import InputError, some, suggestion
from stakes.formulas.design import Design, Parts

# Standard deviations of the outcome that one standard deviation of a predictor may make, and by
# which the intercept may be off.
WIDE = 2.5
# Standard deviations of the outcome by which groups may differ.
GROUPS = 2.0


class Site(NamedTuple):
    """Something that is learned: an intercept, the effects of a term, a spread between groups.

    Attributes:
        name: the site's name.
        prior: its distribution, for a single number or for each of several.
        size: how many numbers the site has; None for a single number.
        words: a description of the site, for readers of the priors.
    """

    name: str
    prior: Distribution
    size: int | None
    words: str

    @property
    def unit(self) -> str:
        """The latent that it is a multiple of, where its prior is normal."""
        return f"{self.name}_decentered"

    def drawn(self) -> Array:
        """Sample it; where its prior is normal, in units of its scale, which is easier to fit."""
        kinds = {dist.Normal: dist.Normal(0, 1), dist.HalfNormal: dist.HalfNormal(1)}
        kind = kinds.get(type(self.prior))
        if kind is None:
            return numpyro.sample(self.name, repeated(self.prior, self.size))
        unit = numpyro.sample(self.unit, repeated(kind, self.size))
        return numpyro.deterministic(self.name, self.scaled(unit))

    def scaled(self, unit: Array) -> Array:
        """The value that a number of units stands for."""
        scaled = self.prior.scale * unit
        return self.prior.loc + scaled if type(self.prior) is dist.Normal else scaled

    @property
    def source(self) -> str:
        """What `drawn` does, as a program writes it."""
        prior, size, name = self.prior, self.size, self.name
        many = "" if size is None else f".expand([{size}]).to_event(1)"
        match type(prior):
            case dist.Normal:
                unit = f"numpyro.sample({f'{name}_decentered'!r}, dist.Normal(0, 1){many})"
                value = f"{number(prior.loc)} + {number(prior.scale)} * {unit}"
                return f"numpyro.deterministic({name!r}, {value})"
            case dist.HalfNormal:
                unit = f"numpyro.sample({f'{name}_decentered'!r}, dist.HalfNormal(1){many})"
                return f"numpyro.deterministic({name!r}, {number(prior.scale)} * {unit})"
        return f"numpyro.sample({name!r}, {shown(prior, number)}{many})"

    def __str__(self) -> str:
        return f"{shown(self.prior, _short)}: {self.words}"


def default_sites(
    design: Design,
    parts: Parts,
    parameters: Mapping[str, tuple[Callable[[], Distribution], str]],
    level: float | None,
    scale: float,
    noise: float,
) -> list[Site]:
    """All that is learned, with default priors.

    Args:
        design: the terms of the formula.
        parts: their columns, for the first table.
        parameters: the parameters of the family except the mean.
        level: where the sum of effects lies; None for a model without an intercept.
        scale: how far sums of effects lie apart.
        noise: how far outcomes lie apart.
    """
    sites = []
    if level is not None:
        words = "the level where all else is at its mean"
        sites.append(Site("intercept", dist.Normal(level, WIDE * scale), None, words))
    for term in design.terms:
        units = _units(term.name, parts.common[:, term.columns], design.intercept)
        size = None if len(units) == 1 else len(units)
        wide = WIDE * scale / (units[0] if size is None else units)
        words = f"of one unit of `{term.name}`" if size is None else f"of each of {size} columns"
        sites.append(Site(term.name, dist.Normal(0.0 * wide, wide), size, words))
    for group in design.groups:
        units = _units(group.name, parts.groups[group.name], False)
        size = None if len(units) == 1 else len(units)
        wide = GROUPS * scale / (units[0] if size is None else units)
        words = f"how much `{group.name}` differs between groups"
        sites.append(Site(f"{group.name}_sigma", dist.HalfNormal(wide), size, words))
    for name, (make, words) in parameters.items():
        prior = make()
        own = dist.HalfNormal(prior.scale * noise) if name == "sigma" else prior
        sites.append(Site(name, own, None, words))
    return sites


def _units(name: str, columns: np.ndarray, varies: bool) -> np.ndarray:
    """How far the values of each column lie apart; half of the difference for two values."""
    spread = columns.std(axis=0)
    if varies and (spread == 0).any():
        raise InputError(
            f"The term `{name}` of the formula has a column with the same value in all rows: "
            f"nothing can be learned from it."
        )
    two = np.array([len(np.unique(column)) == 2 for column in columns.T])
    return np.where(two, np.ptp(columns, axis=0) / 2, np.where(spread > 0, spread, 1.0))


def repeated(prior: Distribution, size: int | None) -> Distribution:
    """A prior for each of several numbers; the prior itself for a single one."""
    return prior if size is None else prior.expand([size]).to_event(1)


def shown(prior: Distribution, number: Callable[[ArrayLike], str]) -> str:
    """A distribution as a program writes it.

    Args:
        prior: the distribution.
        number: writes a parameter, which may be an array.
    """
    arguments = ", ".join(f"{name}={number(getattr(prior, name))}" for name in parameters(prior))
    return f"dist.{type(prior).__name__}({arguments})"


def parameters(prior: Distribution) -> list[str]:
    """The parameters that a distribution was made with."""
    return [name for name in prior.arg_constraints if hasattr(prior, name)]


def number(value: ArrayLike) -> str:
    """A number, or an array of them, as a program writes it."""
    array = np.asarray(value, float)
    return repr(float(array)) if array.ndim == 0 else f"jnp.array({array.tolist()})"


def _short(value: ArrayLike) -> str:
    """A number with three digits; of an array, the first few numbers."""
    array = np.asarray(value, float)
    shortened = [f"{entry:.3g}" for entry in array.ravel()]
    if array.ndim == 0 or len(set(shortened)) == 1:
        return shortened[0]
    return f"[{', '.join(shortened[:4])}{', ...' if len(shortened) > 4 else ''}]"


def replaced(sites: list[Site], priors: Mapping[str, Distribution] | None) -> list[Site]:
    """Put priors of the user's own in the place of default ones.

    Args:
        sites: all that is learned.
        priors: name -> prior; None for the default ones.
    """
    if priors is None:
        return sites
    if not isinstance(priors, Mapping):
        raise InputError(
            f"`formula(priors=...)` must be a mapping from names to distributions, such as "
            f"`{{{sites[0].name!r}: dist.Normal(0, 1)}}`; got {type(priors).__name__}."
        )
    names = [site.name for site in sites]
    for name, prior in priors.items():
        if name not in names:
            raise InputError(
                f"`formula(priors=...)` names {name!r}; there are {some(names)}."
                f"{suggestion(str(name), names)}"
            )
        if not isinstance(prior, dist.Distribution):
            raise InputError(
                f"`formula(priors=...)`: the prior of {name!r} must be a distribution, such as "
                f"`dist.Normal(0, 1)`; got {type(prior).__name__}."
            )
        _check(sites[names.index(name)], prior)
    own = "as you said"
    return [
        site._replace(prior=priors[site.name], words=own) if site.name in priors else site
        for site in sites
    ]


def _check(site: Site, prior: Distribution) -> None:
    """Refuse a prior of another shape, or one that reaches below zero where that has no meaning."""
    shape = () if site.size is None else (site.size,)
    if prior.event_shape or prior.batch_shape not in ((), shape):
        raise InputError(
            f"`formula(priors=...)`: {site.name!r} has {site.size or 1} values, and its prior is "
            f"of shape {prior.shape()}; give one number for each parameter of it, or {site.size}."
        )
    own, given = (getattr(p.support, "lower_bound", None) for p in (site.prior, prior))
    if own is not None and given != own:
        raise InputError(
            f"`formula(priors=...)`: {site.name!r} must stay above zero (or between 0 and 1), and "
            f"{type(prior).__name__} does not; give one such as {type(site.prior).__name__}."
        )
