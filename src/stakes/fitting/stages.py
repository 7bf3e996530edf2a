"""Stages of a fit: whether the bound still rises, and the average over the later part."""

from typing import NamedTuple

import jax
import numpy as np

from stakes._types import Array, PyTree
from stakes.processes import is_shared

# Variables whose drift is watched; of more, about so many, evenly spread.
MOST_WATCHED = 1000
# Numbers in an array of which no second copy is made without need.
LARGE = 2**20


def has_stopped_rising(chunks: np.ndarray, patience: int) -> bool:
    """Whether the last third of a stage is no better than the third before, within noise.

    `chunks` has a row for each chunk, with the bound at each step or only their mean. The thirds
    grow with the stage, so that a slow rise is not mistaken for noise. The bar is one standard
    error, which noise alone stays below five times in six.
    """
    chunks = _with_finite_steps(chunks)
    third = len(chunks) // 3
    if len(chunks) < patience or third < 2:
        return False
    rise, error = _difference(chunks[-2 * third : -third], chunks[-third:])
    return rise <= error


def is_no_better(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether the later two thirds of a stage are no better than those of one before it.

    The bar is two standard errors: noise alone exceeds it once in 44 times, and a true gain of
    four standard errors stays below it once in twenty. Both stages must have ended, so that they
    have at least six chunks each.
    """
    before, after = _with_finite_steps(before), _with_finite_steps(after)
    gain, error = _difference(before[len(before) // 3 :], after[len(after) // 3 :])
    return gain <= 2 * error


def are_drifting(watched: np.ndarray) -> bool:
    """Whether variables still move on in a stage: chunk x variable.

    On its way along a ridge or away from a saddle a fit has a level bound for thousands of steps,
    and its variables move all the same. For each of them, u = t² / (t² + df) compares its last
    third of the stage to the third before; without drift it has mean 1 / (1 + df), and the mean of
    (1 + df) u over n variables has a standard deviation of at most √(2/n). The bar is 1.5 and two
    of these, so that variables at rest are taken to drift less than once in 44 times.
    """
    third = len(watched) // 3
    if third < 2:
        return False
    before, after = watched[-2 * third : -third], watched[-third:]
    noise = (before.var(axis=0, ddof=1) + after.var(axis=0, ddof=1)) / third
    moved = np.isfinite(noise) & (noise > 0)
    if not moved.any():
        return False
    squared = (after - before).mean(axis=0)[moved] ** 2 / noise[moved]
    freedom = 2 * third - 2
    drift = (1 + freedom) * np.mean(squared / (squared + freedom))
    return bool(drift > 1.5 + 2 * np.sqrt(2 / moved.sum()))


def some_of(variables: PyTree) -> np.ndarray:
    """A copy of at most some thousand of the variables, evenly spread."""
    every = spacing(variables)
    leaves = [np.asarray(leaf).reshape(-1)[::every] for leaf in jax.tree.leaves(variables)]
    return np.concatenate([np.zeros(0), *leaves], dtype=np.float64)


def spacing(variables: PyTree) -> int:
    """How far apart some of them lie, in each array, if there are to be `MOST_WATCHED`."""
    return -(-sum(np.size(leaf) for leaf in jax.tree.leaves(variables)) // MOST_WATCHED) or 1


def _difference(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """By how much the mean of the bound has risen, and the standard error of that.

    Noise is measured from chunk to chunk, or from step to step if that is more: with minibatches
    that sweep all rows, chunks hardly differ.
    """
    parts = [np.where(np.isfinite(part), part, np.nan) for part in (before, after)]
    means = [np.nanmean(part, axis=1) for part in parts]
    between = sum(mean.var(ddof=1) / len(mean) for mean in means)
    within = sum(np.nanvar(part, ddof=1) / np.isfinite(part).sum() for part in parts)
    return float(means[1].mean() - means[0].mean()), float(np.sqrt(max(between, within)))


def _with_finite_steps(chunks: np.ndarray) -> np.ndarray:
    """Chunks of which some step has a finite bound, as rows of steps."""
    rows = chunks.reshape(len(chunks), chunks[:1].size or 1)
    finite: np.ndarray = rows[np.isfinite(rows).any(axis=1)]
    return finite


def finite_mean(values: np.ndarray) -> float:
    """Return the mean over the steps that were not skipped.

    For several runs, return the mean of their means.
    """
    if values.ndim > 1:
        return float(np.mean([finite_mean(run) for run in values.T]))
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")


class Average(NamedTuple):
    """The mean of a stage's later part, sampled once per chunk: less noise than any one step.

    Each time that the stage has doubled in length, a new mean is begun and the one before the last
    is dropped, so that the later half always counts and the beginning never does.
    """

    older: PyTree = None
    older_count: int = 0
    newer: PyTree = None
    newer_count: int = 0
    age: int = 0
    restart: int = 4

    def add(self, variables: PyTree) -> "Average":
        """Return the average with one more sample."""
        grown = self._replace(age=self.age + 1)
        if grown.age == grown.restart:
            grown = Average(self.newer, self.newer_count, None, 0, grown.age, 2 * grown.restart)
        if grown.newer is None:
            return grown._replace(newer=owned(variables), newer_count=1)
        mean = _towards(grown.newer, variables, 1 / (grown.newer_count + 1))
        return grown._replace(newer=mean, newer_count=grown.newer_count + 1)

    def over(self, variables: PyTree) -> PyTree:
        """The mean; `variables` themselves where there is none yet."""
        if self.newer is None:
            return variables
        if self.older is None:
            return owned(self.newer)
        share = self.older_count / (self.older_count + self.newer_count)
        return _towards(self.newer, self.older, share)

    def one_of(self, i: int) -> "Average":
        """Return the average of one of several runs."""
        older, newer = jax.tree.map(lambda leaf: leaf[i], (self.older, self.newer))
        return self._replace(older=older, newer=newer)


def owned(tree: PyTree) -> PyTree:
    """Return a copy of a tree, made on the host so that nothing has to be compiled."""
    return jax.tree.map(_copied, tree)


def taken_over(tree: PyTree) -> PyTree:
    """Take over a tree that nobody else uses: copy its small arrays, and keep its large ones.

    Weakly typed arrays are copied and become strongly typed, so that no chunk is compiled again.
    """

    def own(leaf: object) -> Array:
        if isinstance(leaf, jax.Array) and leaf.size >= LARGE and not leaf.weak_type:
            return leaf
        return _copied(leaf)

    return jax.tree.map(own, tree)


def _copied(leaf: object) -> Array:
    if is_shared(leaf):
        assert isinstance(leaf, jax.Array)
        return leaf.copy()
    copy: Array = jax.device_put(np.array(leaf))
    return copy


@jax.jit
def _towards(mean: PyTree, variables: PyTree, share: float) -> PyTree:
    return jax.tree.map(lambda old, new: old + share * (new - old), mean, variables)
