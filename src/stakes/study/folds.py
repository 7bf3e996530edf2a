"""Folds: which outcomes the fits of each fold may see, and which of them judge it.

Random folds, blocks forward in time, or the number of the fold of each outcome. Outcomes that
belong together stay in one fold: otherwise a fit has seen the neighbours of what judges it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, final

import jax
import numpy as np

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError, some
from stakes.port import Instances
from stakes.study.intervals import Ordered


@final
@dataclass(frozen=True, eq=False)
class Forward:
    """Folds forward in time: each is fitted to what came before, and judged by what came next.

    The rows have to be in order of time. The first fold is fitted to the share `start` of them.
    Each later fold is also fitted to the block that judged the fold before it.

    Args:
        blocks: how many folds there are.
        start: the share of the rows that come before the first block.
        together: where several rows have the same time, such as the shops of one day, a number for
            the time of each row; rows with the same number are never split between blocks.

    Examples:
        >>> import stakes
        >>> stakes.Forward(blocks=4, start=0.6)
        Forward(blocks=4, start=0.6)
    """

    blocks: int = 5
    start: float = 0.5
    together: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.together is not None:
            together = checks.array("`Forward(together=...)`", self.together)
            checks.assign(self, together=together)
        blocks = checks.whole("`Forward(blocks=...)`", self.blocks)
        start = checks.number("`Forward(start=...)`", self.start, above=0, below=1)
        checks.assign(self, blocks=blocks, start=start)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Forward) and self._known_by == other._known_by

    def __hash__(self) -> int:
        return hash(self._known_by)

    @property
    def _known_by(self) -> tuple[Any, ...]:
        """All that it is compared by: an array is not equal to another, nor has it a hash."""
        when = self.together
        return self.blocks, self.start, when if when is None else (when.shape, *when.ravel())


def check_order(folds: Forward, index: object) -> None:
    """Refuse rows that are not in order of time, as far as the labels of a table tell."""
    import pandas as pd

    if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex) or index.is_monotonic_increasing:
        return
    dates: Any = index
    later = int(np.flatnonzero(dates[1:] < dates[:-1])[0])
    raise InputError(
        f"`folds={folds}` needs rows in order of time, and the index of `data` is not: "
        f"{index[later + 1]} comes after {index[later]}. Sort the table, `data.sort_index()`, and "
        f"where several rows have one time, give `Forward(together=...)` the time of each."
    )


# The number of random folds, folds forward in time, or a fold's number for each outcome, where -1
# is never judged.
Folds: TypeAlias = int | Forward | np.ndarray


@final
@dataclass(frozen=True, eq=False)
class Mask:
    """The outcomes that a fit may see; compared by identity, as a key of what is fitted to them."""

    seen: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class Splits:
    """For each fold, the outcomes that its fits may see and those that judge them.

    Attributes:
        fitted: fold x case, whether a fit may see the outcome.
        judged: fold x case, whether the outcome judges it.
        title: the folds in words.
        order: how outcomes depend on each other, where folds go forward in time.
    """

    fitted: np.ndarray
    judged: np.ndarray
    title: str
    order: Ordered | None = None

    @cached_property
    def masks(self) -> tuple[Mask, ...]:
        """What the fits of each fold may see."""
        return tuple(map(Mask, self.fitted))

    @property
    def ever_judged(self) -> np.ndarray:
        """Whether an outcome judges any fold."""
        return np.asarray(self.judged.any(axis=0))

    @property
    def widening(self) -> float:
        """How much wider intervals are, because the fits of the folds share data.

        The factor of Nadeau and Bengio, *Inference for the generalization error* (2003): √(1 +
        outcomes that judge / outcomes fitted to).
        """
        fitted = self.fitted.sum(axis=tuple(range(1, self.fitted.ndim))).mean()
        return float(np.sqrt(1 + self.ever_judged.sum() / fitted))


# For strategies that are fitted to everything, and not judged.
NO_FOLDS = Splits(np.zeros((0,), bool), np.zeros((0,), bool), "everything")


def split(
    folds: Folds,
    groups: np.ndarray | None,
    counted: np.ndarray,
    instances: Instances,
    key: Key,
    index: object = None,
) -> Splits:
    """Divide the outcomes that count into folds.

    Args:
        folds: as in `choose`.
        groups: for each outcome; those of one group stay together.
        counted: which outcomes count.
        instances: the shape of the outcomes, and the names of its axes.
        key: of random folds.
        index: labels of a table's rows, to refuse those that are not in order of time.
    """
    units = np.arange(counted.size).reshape(counted.shape) if groups is None else groups
    if isinstance(folds, Forward):
        check_order(folds, index)
        return _forward(folds, units, counted, instances)
    if np.ndim(folds):
        return _given(folds, units, counted)
    count = checks.whole("`folds=`", folds, least=2)
    members = np.unique(units[counted])
    what = "outcomes that count" if groups is None else "groups"
    if len(members) < count:
        raise InputError(
            f"`folds={count}` would leave a fold without rows: there are {len(members)} {what}. "
            f"Give fewer folds."
        )
    seed = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    order = seed.permutation(len(members)) % count
    number = order[np.searchsorted(members, units).clip(max=len(members) - 1)]
    title = f"{counted.sum():,} outcomes in {count} folds"
    if groups is not None:
        title += f" that keep {len(members):,} groups together"
    return _by_number(np.where(counted, number, -1), count, counted, title)


def _by_number(number: np.ndarray, count: int, counted: np.ndarray, title: str) -> Splits:
    """Return the folds in which each outcome judges the fold of its number; -1 for none."""
    judged = np.stack([number == k for k in range(count)])
    return Splits(counted & ~judged, judged, title)


def _given(folds: Any, units: np.ndarray, counted: np.ndarray) -> Splits:
    """Return the folds whose numbers the user gives, if they leave something to fit to."""
    number = checks.array("`folds=`", folds)
    if number.shape != counted.shape or number.dtype.kind not in "iu":
        rule = f"whole numbers of shape {counted.shape}, one for each outcome"
        raise checks.refused("`folds=`", rule, folds)
    count = int(number.max()) + 1
    number = np.where(counted, number, -1)
    empty = [k for k in range(count) if not (number == k).any()]
    if count < 1 or empty:
        raise InputError(
            f"`folds=`: fold {some(empty or [0])} has no outcome that counts. Number folds from 0 "
            f"without gaps; -1 is for outcomes that are only fitted to."
        )
    if (number[counted] == 0).all():
        raise InputError(
            "`folds=` has all outcomes that count in fold 0, which leaves nothing to fit to. "
            "Number at least two folds, or give -1 to outcomes that are only fitted to."
        )
    for k in range(count):
        both = np.intersect1d(units[number == k], units[counted & (number != k)])
        if len(both):
            raise InputError(f"`folds=` splits the groups {some(both.tolist())} of `by=`.")
    return _by_number(number, count, counted, f"{counted.sum():,} outcomes in {count} given folds")


def _forward(
    folds: Forward, units: np.ndarray, counted: np.ndarray, instances: Instances
) -> Splits:
    """Return blocks forward in time, each fitted to what came before it."""
    if len(instances.shape) != 1:
        raise InputError(
            f"`folds={folds}` goes forward along one axis of outcomes, but there are "
            f"{len(instances.shape)}: {some(instances.dims)}. Give the fold of each outcome as an "
            f"array of whole numbers."
        )
    rows = np.flatnonzero(counted)
    first = int(np.ceil(folds.start * len(rows)))
    sizes = [len(block) for block in np.array_split(rows[first:], folds.blocks)]
    starts = _undivided(folds, first + np.cumsum([0, *sizes[:-1]]), rows, counted.shape)
    blocks = np.split(rows, starts)[1:]
    if starts[0] < 1 or any(not len(block) for block in blocks):
        raise InputError(
            f"`folds={folds}` would leave a fold without rows: there are {len(rows)} outcomes that "
            f"count. Give fewer blocks."
        )
    fitted, judged = np.zeros((2, folds.blocks, *counted.shape), bool)
    for k, block in enumerate(blocks):
        judged[k, block] = True
        fitted[k, rows[rows < block[0]]] = True
        torn = np.intersect1d(units[fitted[k]], units[judged[k]])
        if len(torn):
            raise InputError(
                f"`folds={folds}` splits the groups {some(torn.tolist())} of `by=`: going forward, "
                f"what is judged cannot stay together with what came before. Leave `by` out."
            )
    title = f"{judged.sum():,} of {len(rows):,} outcomes, in {folds.blocks} blocks forward in time"
    return Splits(fitted, judged, title, Ordered(folds.together))


def _undivided(
    folds: Forward, starts: np.ndarray, rows: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """Return where blocks begin: moved to where no rows of one time are divided."""
    if folds.together is None:
        return starts
    if folds.together.shape != shape:
        rule = f"a number for each outcome, of shape {shape}"
        raise checks.refused("`Forward(together=...)`", rule, folds.together)
    when = folds.together[rows]
    changes = np.flatnonzero(np.append(when[1:] != when[:-1], True)) + 1
    return np.asarray(changes[np.abs(changes[None, :] - starts[:, None]).argmin(axis=1)])
