"""A monotone map of the base's decisions, with as many blocks as the rows support."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from stakes._types import Key
from stakes.protocols import Criterion
from stakes.study.strategies.correction import (
    FEWEST,
    FOLDS,
    FittedMap,
    Identity,
    MapInputs,
    RowCosts,
    best_share,
    checked,
    folds,
    number_in,
    numbers_of,
    opened,
    unless_worse,
)

BLOCKS = (1, 2, 4, 8, 16, 32)
OFFSETS = 257
"""How many are tried, close to one another around zero."""


@final
@dataclass(frozen=True)
class Monotone:
    """Move decisions by an amount that depends on the decision, without changing their order.

    Rows are put into blocks by the base's decision. Each gets the offset at which its outcomes cost
    least, among those that keep the blocks in order, for any cost; between blocks, offsets are
    interpolated. The number of blocks is chosen by rows that were left out.

    Examples:
        >>> import stakes
        >>> stakes.Corrected(stakes.Plain(), stakes.Monotone()).name
        'plain VI, corrected by monotone'
    """

    title: ClassVar[str] = "monotone"
    description: ClassVar[str] = "decisions moved by an amount that depends on the decision"
    covariates: ClassVar[tuple[str, ...]] = ()

    def fit(
        self, key: Key, inputs: MapInputs, outcomes: np.ndarray, criterion: Criterion
    ) -> FittedMap:
        inputs, costs = opened(key, inputs, outcomes, criterion)
        if costs.rows < FEWEST:
            return Identity()
        fold = folds(key, costs.rows)
        offsets = _offsets(costs, inputs.decisions)
        grids = [Blocks.of(inputs.decisions, n) for n in BLOCKS if n * FEWEST <= costs.rows]
        tables = _tables(costs, inputs.decisions, offsets, grids, fold)
        tried: list[tuple[float, int, float]] = []
        for blocks, table in zip(grids, tables, strict=True):
            maps = [blocks.best(np.delete(table, k, axis=0).sum(0), offsets) for k in range(FOLDS)]
            held_out = np.choose(fold, [each.decide(inputs) for each in maps])
            share, cost = best_share(costs, inputs.decisions, held_out)
            tried.append((cost, len(tried), share))
        _, chosen, share = min(tried)
        found = grids[chosen].best(tables[chosen].sum(0), offsets)
        return unless_worse(Offsets(found.at, share * found.by), inputs, costs)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> FittedMap:
        """The offsets that were found."""
        return Offsets(*(number_in(arrays, n) for n in ("at", "by"))) if arrays else Identity()


@final
@dataclass(frozen=True, eq=False)
class Offsets:
    """decision + offset, which is interpolated between those at some decisions."""

    at: np.ndarray
    by: np.ndarray

    def decide(self, inputs: MapInputs) -> np.ndarray:
        decisions = checked(inputs).decisions
        return np.asarray(decisions + np.interp(decisions, self.at, self.by))

    def arrays(self) -> dict[str, np.ndarray]:
        """The decisions at which offsets are known, and the offsets."""
        return numbers_of(self)


@final
@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows by their decision, about equally many in each block, and ties together."""

    of_row: np.ndarray
    centres: np.ndarray

    @classmethod
    def of(cls, decisions: np.ndarray, count: int) -> "Blocks":
        levels = np.linspace(0, 1, count + 1)[1:-1]
        rising, start = np.sort(decisions), 0
        edges: list[float] = []
        for edge in np.quantile(decisions, levels, method="inverted_cdf"):
            below = int(np.searchsorted(rising, edge))
            if below - start >= FEWEST and len(rising) - below >= FEWEST:
                edges, start = [*edges, float(edge)], below
        of_row = np.searchsorted(edges, decisions, side="right")
        centres = np.bincount(of_row, decisions) / np.bincount(of_row)
        return cls(of_row, centres)

    def best(self, table: np.ndarray, offsets: np.ndarray) -> Offsets:
        """The offsets, one for each block, that cost least and keep the blocks in order.

        `table` has the cost of each block (rows) at each offset (columns). By dynamic programming:
        `least` is what the blocks so far cost, the last of them with this offset or less.
        """
        least, steps = np.zeros(len(offsets)), []
        for costs, gap in zip(table, np.diff(self.centres, prepend=-np.inf), strict=True):
            # The largest offset of the block before with which this one still lies above it.
            last = np.searchsorted(offsets, offsets + gap, side="right") - 1
            total = costs + least[last]
            best = _running_best(total, np.abs(offsets))
            steps.append((best, last))
            least = total[best]
        chosen, most = [], len(offsets) - 1
        for best, last in reversed(steps):
            chosen.append(offsets[best[most]])
            most = last[best[most]]
        return Offsets(self.centres, np.array(chosen[::-1]))


def _running_best(values: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Where the least of all values up to each place is; of several, the one that is least far."""
    order, rank = np.lexsort((far, values)), np.empty(len(values), int)
    rank[order] = np.arange(len(values))
    return np.asarray(order[np.minimum.accumulate(rank)])


def _offsets(costs: RowCosts, decisions: np.ndarray) -> np.ndarray:
    """From where the farthest outcome below its decision is to the farthest above."""
    away = np.asarray(costs.outcomes, np.float64) - decisions
    reach = float(np.abs(away).max()) or 1.0
    return np.asarray(reach * np.sinh(6 * np.linspace(-1, 1, OFFSETS)) / np.sinh(6))


def _tables(
    costs: RowCosts,
    decisions: np.ndarray,
    offsets: np.ndarray,
    grids: list[Blocks],
    fold: np.ndarray,
) -> list[np.ndarray]:
    """For each grid, the costs of each fold (first axis) and block at each offset (last)."""
    tables = [np.zeros((FOLDS, len(blocks.centres), len(offsets))) for blocks in grids]
    for place, offset in enumerate(offsets):
        each = costs.each(decisions + offset)
        for table, blocks in zip(tables, grids, strict=True):
            count = len(blocks.centres)
            sums = np.bincount(fold * count + blocks.of_row, each, FOLDS * count)
            table[:, :, place] = sums.reshape(FOLDS, count)
    return tables
