"""The matrix of the paper's second experiment, its model, and fits of it from several seeds."""

import functools
import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import jax
import jax.numpy as jnp
import numpy as np
import optax

from examples import matrix_factorization
from reproduce.lastfm import lastfm
from reproduce.results import QUICK_CAVEAT, Results, Settings
from reproduce.seeds import PlainFits, continued, fit_vi
from stakes import datasets
from stakes._types import Array, Key
from stakes.bridge import NumPyroApproximation, approximate
from stakes.errors import InputError
from stakes.fitting import Fit, natural_gradient
from stakes.losses import Squared, Tilted
from stakes.problem import Problem
from stakes.protocols import Loss, Transform
from stakes.study import Options, Plan, prepare

if TYPE_CHECKING:
    import pandas as pd

LOSSES: dict[str, Loss] = {
    "squared": Squared(),
    "tilted 0.2": Tilted(0.2),
    "tilted 0.5": Tilted(0.5),
    "tilted 0.8": Tilted(0.8),
}
COLUMNS = 100
VARIABLE = "STAKES_DATA"


@final
@dataclass(frozen=True, eq=False)
class Matrix:
    """log(1 + count), and which entries are held out for the test."""

    name: str
    y: np.ndarray
    test: np.ndarray
    row_names: list[str]
    column_names: list[str]
    caveats: tuple[str, ...] = ()
    """What a reader of a table or figure has to know about the data."""

    @property
    def note(self) -> str:
        return " ".join(self.caveats)

    @property
    def data(self) -> dict[str, Array]:
        return {"observed": jnp.asarray(~self.test), "y": jnp.asarray(self.y, jnp.float32)}

    @property
    def digest(self) -> str:
        """Of entries and split, to tell one file from another."""
        return hashlib.sha256(self.y.tobytes() + self.test.tobytes()).hexdigest()[:16]

    @functools.cached_property
    def approximation(self) -> NumPyroApproximation:
        """Traced once for all losses."""
        return approximate(problem(Squared()), self.data, jax.random.key(0))

    def risk(self, loss: Loss, decisions: np.ndarray) -> float:
        """Mean loss over the held-out entries."""
        losses = np.asarray(loss(jnp.asarray(self.y), jnp.asarray(decisions)))
        return float(losses[self.test].mean(dtype=np.float64))


def load(path: Path | None, *, quick: bool) -> Matrix:
    """Last.fm where the user has it, the shipped retail matrix otherwise."""
    path = path or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    return _load(path, quick)


@functools.cache
def _load(path: Path | None, quick: bool) -> Matrix:
    """Loaded once for all experiments, so that they share the fits that are kept of it."""
    caveats = [QUICK_CAVEAT] if quick else []
    if path is None:
        counts, name = datasets.retail(), "Online Retail II"
        caveats.append(
            "Data: the shipped Online Retail II matrix, not Last.fm; the published figures are for "
            "Last.fm. Give its path with --data or STAKES_DATA."
        )
    else:
        counts, name = _lastfm(path), "Last.fm"
    counts = counts.iloc[:, :COLUMNS]
    if quick:
        counts = counts.iloc[:200]
    y = np.log1p(counts.to_numpy(dtype=np.float64))
    # The split of the published runs: NumPy's old generator, seed 123, 1 = test.
    test = np.random.RandomState(123).choice([0, 1], y.shape).astype(bool)
    rows, columns = [str(r) for r in counts.index], [str(c) for c in counts.columns]
    return Matrix(name, y, test, rows, columns, tuple(caveats))


def _lastfm(path: Path) -> "pd.DataFrame":
    try:
        return lastfm(path)
    except InputError as error:
        raise InputError(
            f"{error} The path comes from `--data` or {VARIABLE}: without either, the experiments "
            f"run on the retail matrix."
        ) from error


@final
@dataclass(frozen=True)
class Effort:
    """Steps of plain VI and of the calibrated fit after it, and draws of θ at each."""

    vi_steps: int = 9_000
    steps: int = 3_000
    draws: int = 16
    independent: bool = True
    """Each draw by itself, as published; the others come in pairs and are evenly spread."""


THOROUGH = Effort()
QUICK = Effort(vi_steps=300, steps=200, draws=4)


def start(
    settings: Settings, name: str, effort: Effort = THOROUGH
) -> tuple[Matrix, Effort, Results]:
    """The data, how long to fit, and the rows that an earlier run of this experiment finished."""
    data = load(settings.data, quick=settings.quick)
    effort = QUICK if settings.quick else effort
    setting = {"data": data.name, "digest": data.digest, "effort": vars(effort)}
    return data, effort, Results(settings.folder / name, setting)


def annealed(steps: int) -> optax.GradientTransformation:
    """Natural gradients whose rate falls to zero, so that a fit settles at its optimum.

    Adam would need ten times the steps: see the docs on reproducing the paper.
    """
    falling = optax.scale_by_schedule(optax.cosine_decay_schedule(1.0, steps))
    return optax.chain(natural_gradient(0.1), falling)


def problem(loss: Loss | None = None, **other: Any) -> Problem:
    """A problem with the paper's model: K = 20, σ_y = 1, priors of 10, 100 rows per step."""
    return Problem(matrix_factorization.model, outcome="y", loss=loss, **other)


def plan(
    matrix: Matrix,
    problem: Problem,
    transform: Transform | None,
    effort: Effort,
    *,
    steps: int,
    **other: Any,
) -> Plan:
    """A plan with natural gradients for all of the steps; `other` are options of a calibration."""
    return prepare(
        jax.random.key(0),
        problem,
        matrix.data,
        replace(options(effort, steps), transform=transform, **other),
        approximation=matrix.approximation,
    )


def options(effort: Effort, steps: int) -> Options:
    """Natural gradients for all of the steps."""
    return Options(
        steps=steps,
        draws=effort.draws,
        independent=effort.independent,
        optimizer=annealed(steps),
        all_steps=True,
    )


def plain_fits(
    matrix: Matrix, effort: Effort, seeds: Sequence[int], *, draws: int | None = None
) -> tuple[PlainFits, PlainFits]:
    """Plain VI, from which calibrated fits start; and continued for as many steps as those take.

    The further steps have `draws` draws of θ, where calibrated fits have another number of them.
    """
    plain = _plain_fits(matrix, effort, tuple(seeds))
    return plain, _continued(plain, matrix, effort, draws)


@functools.cache
def _plain_fits(matrix: Matrix, effort: Effort, seeds: tuple[int, ...]) -> PlainFits:
    own = plan(matrix, problem(Squared()), None, effort, steps=effort.vi_steps)
    return fit_vi(keys(seeds), own)


@functools.cache
def _continued(plain: PlainFits, matrix: Matrix, effort: Effort, draws: int | None) -> PlainFits:
    other = {} if draws is None else {"draws": draws}
    further = plan(matrix, problem(Squared()), None, effort, steps=effort.steps, **other)
    return continued(plain, further)


def keys(seeds: Sequence[int]) -> Key:
    return jax.vmap(jax.random.key)(jnp.array(seeds))


def fit_figures(fit: Fit) -> dict[str, Any]:
    """The figures of a fit that the results keep."""
    return {
        "elbo": last(fit.elbo),
        "steps": fit.steps,
        "step_ms": 1e3 * fit.step_seconds,
        "seconds": fit.seconds,
    }


def last(trace: np.ndarray) -> float:
    """Mean of the last twentieth of a trace."""
    return float(np.mean(trace[-max(1, len(trace) // 20) :]))


def thinned(trace: np.ndarray, points: int = 200) -> list[list[float]]:
    """Some steps, and the mean of the trace since the one before."""
    edges = np.unique(np.linspace(0, len(trace), points + 1).astype(int))
    return [[int(b), float(trace[a:b].mean())] for a, b in itertools.pairwise(edges)]
