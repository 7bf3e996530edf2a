"""Intervals for how much lower one risk is than another, where cases may depend on each other.

The reduction is a ratio of means, (mean a - mean b) / |mean a|. Its error comes from the residuals
(a_i - b_i) - reduction·|a|_i, which add up to zero: how far their sum would stray in other data
depends on which of them belong together. A `Dependence` says so.

Where no residual dominates, a normal approximation with a t distribution holds. Otherwise the
interval comes by resampling: costs are few, or a few of them are most of the sum.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from stakes import checks
from stakes.errors import InputError

# The share of data sets in which an interval holds the true reduction.
LEVEL = 0.95
# With this many, the 2.5 % quantile of resampled values is one of them: the 50th of 1999.
RESAMPLES = 1999
# Up to this many costs, all 2¹² = 4096 changes of their signs are tried; beyond, some at random.
ALL_SIGNS = 12
# A difference below this share of the costs is a rounding error.
NONE = 1e-12


@final
@dataclass(frozen=True, eq=False)
class Costs:
    """What two sets of decisions cost for the same cases, or for groups of them.

    Attributes:
        base: one cost for each case.
        other: the same of the decisions that are compared with the base.
    """

    base: np.ndarray
    other: np.ndarray

    @property
    def change(self) -> np.ndarray:
        """By how much each case costs less."""
        return np.asarray(self.base - self.other)

    @property
    def size(self) -> np.ndarray:
        """The costs of the base, turned so that their mean is positive: those of gains are not."""
        return np.asarray(self.base * np.sign(self.base.mean()))

    @property
    def reduction(self) -> float:
        """The share by which the other is lower than the base."""
        return float(self.change.mean() / self.size.mean())

    @property
    def residuals(self) -> np.ndarray:
        """The contribution of each case to the error of the reduction; they add up to zero."""
        return np.asarray((self.change - self.reduction * self.size) / self.size.mean())

    def sum_by(self, groups: np.ndarray) -> "Costs":
        """Return the costs of each group together."""
        return Costs(sum_by_group(self.base, groups), sum_by_group(self.other, groups))


def by_bootstrap(costs: Costs, rng: np.random.Generator) -> tuple[float, float]:
    """Return a studentised bootstrap interval: errors in units of their standard error are drawn
    anew.

    Hall, *The Bootstrap and Edgeworth Expansion* (1992): its error falls faster than that of a
    plain percentile interval, which matters for few and skewed costs.
    """
    count = len(costs.base)
    rows = rng.integers(count, size=(RESAMPLES, count))
    change, size = costs.change[rows], costs.size[rows]
    mean = size.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        reduction = change.mean(axis=1) / mean
        spread = (change - reduction[:, None] * size).std(axis=1, ddof=1) / np.abs(mean)
        scores = (reduction - costs.reduction) / spread
    scores = np.where(np.isnan(scores), 0.0, scores)
    low = float(np.quantile(scores, (1 - LEVEL) / 2, method="lower"))
    high = float(np.quantile(scores, (1 + LEVEL) / 2, method="higher"))
    own = float(costs.residuals.std(ddof=1))
    return costs.reduction - high * own, costs.reduction - low * own


def by_signs(costs: Costs, rng: np.random.Generator) -> tuple[float, float]:
    """Return all reductions at which the residuals might as well have had the other sign.

    Exact where the two costs of a case are exchangeable, however heavy their tails.
    """
    signs = _signs(len(costs.base), rng)
    changes, sizes = signs @ costs.change, signs @ costs.size
    change, size = float(costs.change.sum()), float(costs.size.sum())

    def plausible(reduction: float) -> bool:
        own = abs(change - reduction * size) * (1 - NONE)
        return float(np.mean(np.abs(changes - reduction * sizes) >= own)) > 1 - LEVEL

    return (
        _edge(plausible, costs.reduction, -1.0),
        _edge(plausible, costs.reduction, +1.0),
    )


def _signs(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return all changes of sign, or many of them; no change at all is among them."""
    if count <= ALL_SIGNS:
        return np.array(list(itertools.product([1.0, -1.0], repeat=count)))
    drawn = rng.choice([-1.0, 1.0], size=(RESAMPLES, count))
    return np.vstack([np.ones(count), drawn])


def _edge(plausible: Callable[[float], bool], start: float, sign: float) -> float:
    """Return how far one may go from the start; infinite where there is no end."""
    inside, outside = 0.0, 1e-3 + 0.1 * abs(start)
    while plausible(start + sign * outside):
        inside, outside = outside, 2 * outside
        if outside > 1e6:
            return sign * np.inf
    for _ in range(30):
        middle = (inside + outside) / 2
        inside, outside = (
            (middle, outside) if plausible(start + sign * middle) else (inside, middle)
        )
    return start + sign * outside


def sum_by_group(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the sum of each group."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.bincount(numbers, values)


# Share of one residual in all their squares beyond which no normal approximation is used.
HEAVY = 0.1
# More costs than this are summed over as many groups before they are resampled: the sums are nearly
# normal, and memory stays bounded.
MOST = 1000
# Fewer independent groups than this allow no claim at the 95 % level: of 2⁵ changes of sign, the
# two most extreme are 6 %.
FEWEST = 6
# Fewer cosine transforms than this leave a t distribution whose tails allow no useful claim.
FEWEST_WAVES = 4
# The name of groups that the user gave without one.
GIVEN = "the groups given"


class ConfidenceInterval(NamedTuple):
    """An interval of the reduction, and how it was found.

    Attributes:
        low: lower end; minus infinity where nothing can be claimed.
        high: upper end.
        method: how it was found, in words.
    """

    low: float
    high: float
    method: str


class Dependence(Protocol):
    """Which cases vary together, and the interval that allows for it."""

    @property
    def words(self) -> str:
        """What a verdict calls it."""
        ...

    @property
    def size(self) -> int | None:
        """How many cases it is about; None for any number."""
        ...

    def among(self, chosen: np.ndarray) -> "Dependence":
        """Return that of some of the cases: a truth value for each, in their shape."""
        ...

    def interval(self, costs: Costs, rng: np.random.Generator) -> ConfidenceInterval:
        """Return a 95 % interval of the reduction."""
        ...


@final
@dataclass(frozen=True)
class Independent:
    """No case depends on another.

    Examples:
        >>> import stakes
        >>> stakes.Independent().words
        'independent cases'
    """

    @property
    def words(self) -> str:
        return "independent cases"

    @property
    def size(self) -> None:
        return None

    def among(self, chosen: np.ndarray) -> "Independent":
        return self

    def interval(self, costs: Costs, rng: np.random.Generator) -> ConfidenceInterval:
        return _of_independent(costs, self.words, rng)


# The default of every comparison.
INDEPENDENT = Independent()


@final
@dataclass(frozen=True, eq=False)
class Clustered:
    """Cases of one group belong together: sales of one shop, pupils of one school.

    Costs are summed over each group, and the sums are independent.

    Attributes:
        groups: a label for each case, kept as numbers.
        name: the name of the groups, for verdicts.

    Examples:
        >>> import stakes
        >>> stakes.study.Clustered(["a", "a", "b"], "shop").words
        'clustered by shop'
    """

    groups: np.ndarray
    name: str = GIVEN

    def __post_init__(self) -> None:
        checks.fields(self, name=str)
        checks.assign(self, groups=number_labels("`Clustered(groups=...)`", self.groups))

    @property
    def words(self) -> str:
        return f"clustered by {self.name}"

    @property
    def size(self) -> int:
        return len(self.groups)

    def among(self, chosen: np.ndarray) -> "Clustered":
        return Clustered(self.groups[np.ravel(chosen)], self.name)

    def interval(self, costs: Costs, rng: np.random.Generator) -> ConfidenceInterval:
        return _of_independent(costs.sum_by(self.groups), self.words, rng)


@final
@dataclass(frozen=True, eq=False)
class Crossed:
    """Cases belong to a group in each of two ways, such as a user and an item.

    The variance is that of Cameron, Gelbach and Miller, *Robust inference with multiway clustering*
    (2011): by one, plus by the other, less what both count. Where it is smaller than that of one
    alone, that one is taken.

    Attributes:
        groups: two labels for each case, kept as numbers.
        names: the names of the two kinds of groups, for verdicts.
    """

    groups: tuple[np.ndarray, np.ndarray]
    names: tuple[str, str] = (GIVEN, GIVEN)

    def __post_init__(self) -> None:
        where = "`Crossed({}=...)`".format
        names = checks.names(where("names"), self.names)
        rule = "a pair of labels for the same cases, such as `(user, item)`"
        pair = checks.instance(where("groups"), self.groups, (tuple, list), rule)
        groups = tuple(number_labels(where("groups"), each) for each in pair)
        if len(groups) != 2 or len(groups[0]) != len(groups[1]):
            raise checks.refused(where("groups"), rule, self.groups)
        if len(names) != 2:
            raise checks.refused(where("names"), "a pair of names", self.names)
        checks.assign(self, groups=groups, names=names)

    @property
    def words(self) -> str:
        return f"clustered by {self.names[0]} and by {self.names[1]}"

    @property
    def size(self) -> int:
        return len(self.groups[0])

    def among(self, chosen: np.ndarray) -> "Crossed":
        one, two = (groups[np.ravel(chosen)] for groups in self.groups)
        return Crossed((one, two), self.names)

    def interval(self, costs: Costs, rng: np.random.Generator) -> ConfidenceInterval:
        sums = [costs.sum_by(groups) for groups in self.groups]
        fewest = min(len(each.base) for each in sums)
        if fewest < FEWEST:
            return _no_claim(f"{self.words}; {fewest} clusters are too few")
        one, two = (_squares(sum_by_group(costs.residuals, groups)) for groups in self.groups)
        variance = max(one + two - _squares(costs.residuals), one, two)
        error = float(np.sqrt(variance)) / len(costs.base)
        return _by_t(costs.reduction, error, fewest - 1, self.words)


@final
@dataclass(frozen=True, eq=False)
class Ordered:
    """Rows are in order of time, and neighbours resemble each other.

    The long-run variance is the mean square of the first cosine transforms of the residuals. Their
    number is the one that Lazarus, Lewis, Stock and Watson (2018) recommend. The ratio follows a t
    distribution. Where tails are heavy, stretches of neighbours are resampled, one more than there
    are transforms.

    Args:
        together: where several rows have the same time, such as the shops of one day, a label for
            the time of each row. Their costs are added up, since what happens on a day happens to
            all of them.

    Examples:
        >>> import stakes
        >>> stakes.Ordered()  # result.compare(held_out, by=stakes.Ordered())
        Ordered()
    """

    together: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.together is not None:
            times = number_labels("`Ordered(together=...)`", self.together)
            checks.assign(self, together=times)

    @property
    def words(self) -> str:
        return "rows in order of time" if self.together is None else "times in order"

    @property
    def size(self) -> int | None:
        return None if self.together is None else len(self.together)

    def among(self, chosen: np.ndarray) -> "Ordered":
        return self if self.together is None else Ordered(self.together[np.ravel(chosen)])

    def interval(self, costs: Costs, rng: np.random.Generator) -> ConfidenceInterval:
        from scipy import fft  # slow to import

        if self.together is not None:
            costs = costs.sum_by(self.together)
        count = len(costs.base)
        waves = int(0.41 * count ** (2 / 3))
        if waves < FEWEST_WAVES:
            return _no_claim(f"{self.words}; {count} are too few")
        squares = np.square(costs.residuals)
        if squares.max() > HEAVY * squares.sum():
            stretches = np.arange(count) * (waves + 1) // count
            return _of_independent(costs.sum_by(stretches), self.words, rng)
        transforms = fft.dct(costs.residuals, norm="ortho")[1 : waves + 1]
        error = float(np.sqrt(np.square(transforms).mean() / count))
        return _by_t(costs.reduction, error, waves, self.words)


def interval(
    base: np.ndarray,
    other: np.ndarray,
    dependence: Dependence = INDEPENDENT,
) -> ConfidenceInterval:
    """Return a 95 % interval of the reduction from one set of costs to the other.

    The same costs have the same interval: resampling begins with the same seed.

    Args:
        base: a cost for each case.
        other: the costs of other decisions about the same cases.
        dependence: which cases vary together.

    Examples:
        >>> import numpy as np
        >>> from stakes.study import interval
        >>> costs = np.arange(1.0, 51.0)
        >>> low, high, _ = interval(costs, 0.9 * costs)
        >>> round(low, 3), round(high, 3)
        (0.1, 0.1)
    """
    base, other = checks.array("`base`", base), checks.array("`other`", other)
    if base.shape != other.shape or base.ndim != 1:
        rule = f"a cost for each case of `base`, so of shape {base.shape}"
        raise checks.refused("`other`", rule, other)
    known = "one such as `Independent()`"
    checks.choice("`dependence`", dependence, Dependence, known, hashable=False)
    if dependence.size not in (None, len(base)):
        raise InputError(f"`dependence` is about {dependence.size} cases; there are {len(base)}.")
    if np.array_equal(base, other):
        return ConfidenceInterval(0.0, 0.0, "the same costs")
    if not (np.isfinite(base).all() and np.isfinite(other).all()):
        return _no_claim("a cost is not finite")
    costs = Costs(base, other)
    if np.abs(base).max() * NONE >= abs(base.mean()):
        return _no_claim("the costs to compare with add up to nothing")
    if np.abs(costs.residuals).max() <= NONE * (1 + abs(costs.reduction)):
        return ConfidenceInterval(
            costs.reduction, costs.reduction, "all costs in the same proportion"
        )
    return dependence.interval(costs, np.random.default_rng(0))


def interval_across_folds(
    base: np.ndarray, other: np.ndarray, dependence: Dependence, widening: float
) -> ConfidenceInterval:
    """Return the interval for decisions of fits that share most of their data, by so much wider.

    It is computed as a share of the larger risk, so that two strategies are told apart, or not,
    from whichever side one looks.
    """
    if 0 < base.mean() < other.mean():
        return _turned_round(interval_across_folds(other, base, dependence, widening))
    plain = interval(base, other, dependence)
    middle = relative(float(base.mean()) - float(other.mean()), abs(float(base.mean())))
    if not np.isfinite(middle):  # against decisions that cost nothing
        return plain
    low, high = (middle + widening * (end - middle) for end in (plain.low, plain.high))
    return plain._replace(low=low, high=high)


def _turned_round(found: ConfidenceInterval) -> ConfidenceInterval:
    """Turn the reduction from the first risk to the second into the one from second to first.

    A reduction by a share r of the first risk is one by 1 - 1 / (1 - r) of the second. An interval
    that is infinite at both ends stays as it is.
    """
    if np.isinf([found.low, found.high]).all():
        return found
    low, high = (1 - 1 / (1 - end) if end < 1 else -np.inf for end in (found.high, found.low))
    return found._replace(low=low, high=high)


def relative(change: float, base: float) -> float:
    """Return a change of risk as a share of the base.

    Decisions that cost nothing cannot be improved, and any cost is infinitely worse.
    """
    return change / base if base else (0.0 if change == 0 else -np.inf)


def number_labels(where: str, labels: object) -> np.ndarray:
    """Return a number for each of the labels, the same for the same label."""
    import pandas as pd

    rule = "a label for each case, such as the shop of each sale"
    try:
        listed = np.asarray(labels)
        numbers = pd.factorize(listed)[0]
    except (TypeError, ValueError):
        raise checks.refused(where, rule, labels) from None
    if not listed.size or listed.dtype.kind not in "biufUSOM" or (numbers < 0).any():
        raise checks.refused(where, f"{rule}, and none missing", labels)
    return np.asarray(numbers)


def _no_claim(why: str) -> ConfidenceInterval:
    """Return an interval without ends, and why there is no other."""
    return ConfidenceInterval(-np.inf, np.inf, why)


def _of_independent(costs: Costs, words: str, rng: np.random.Generator) -> ConfidenceInterval:
    """Return the interval for costs that are independent of each other: of cases, or sums over
    groups.

    The t interval holds where no residual dominates. Otherwise two intervals by resampling are
    joined: each of them alone is too narrow for some heavy tails.
    """
    residuals, count = costs.residuals, len(costs.base)
    if count < FEWEST:
        return _no_claim(f"{words}; {count} are too few")
    if np.square(residuals).max() <= HEAVY * np.square(residuals).sum():
        error = float(residuals.std(ddof=1) / np.sqrt(count))
        return _by_t(costs.reduction, error, count - 1, words)
    if count > MOST:
        costs = costs.sum_by(np.arange(count) % MOST)
    ends = (by_bootstrap(costs, rng), by_signs(costs, rng))
    return ConfidenceInterval(
        min(low for low, _ in ends),
        max(high for _, high in ends),
        f"{words}; bootstrap, because costs are few or heavy-tailed",
    )


def _by_t(reduction: float, error: float, freedom: int, words: str) -> ConfidenceInterval:
    """Return the interval of a t distribution with so many degrees of freedom."""
    from scipy import stats  # slow to import

    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom) * error)
    return ConfidenceInterval(reduction - half, reduction + half, words)


def _squares(sums: np.ndarray) -> float:
    """Return Σ s², with the usual correction for few groups."""
    return float(np.square(sums).sum() * len(sums) / max(len(sums) - 1, 1))
