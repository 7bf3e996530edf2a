"""A calibration on some cases: what it decides and predicts for them, and how that turned out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes import checks, predicting
from stakes.bridge import Predictor
from stakes.errors import InputError
from stakes.port import Instances
from stakes.predicting import FittedPosterior, Observations, Posterior, SampledPosterior
from stakes.problem import Problem
from stakes.protocols import Expectation, Space
from stakes.study.comparison import Comparison
from stakes.study.dependence import By, dependence_of
from stakes.study.keys import Keys
from stakes.study.plan import check_decisions

if TYPE_CHECKING:
    import xarray as xr

MOST_VALUES = 20_000_000
"""Predictive draws held at once: 200 for each of 100,000 instances."""
INTERVAL = (0.05, 0.95)
LEFT_OUT = "Calibrated VI is none of the ways to choose among, and was not fitted."


@final
@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """Decisions, predictions, outcomes and comparison on some cases, each computed once.

    Made by `Calibration.assess`. The posteriors are "VI" and "LCVI", the calibrated one, unless
    that was left out: then nothing that needs it can be asked for.
    """

    problem: Problem
    posteriors: Mapping[str, FittedPosterior]
    predictor: Predictor
    expectation: Expectation
    keys: Keys
    coords: Mapping[str, Any]
    setting: str
    """How it was calibrated, in words."""
    unconverged: tuple[str, ...]
    """Fits that did not converge, and why they ended."""
    held_out: bool
    by: By = None
    """Which instances belong together, as in `Calibration.compare`."""

    def __post_init__(self) -> None:
        checks.fields(
            self,
            problem=Problem,
            posteriors=Mapping,
            predictor=Predictor,
            keys=Keys,
            coords=Mapping,
            setting=str,
        )
        checks.flags(self, "held_out")
        checks.names("`Assessment(unconverged=...)`", self.unconverged)
        known = "one such as `Quadrature()`"
        checks.choice("`Assessment(expectation=...)`", self.expectation, Expectation, known)
        task = self.problem.task
        task.check_columns(self.predictor.columns(task.needs))

    def __repr__(self) -> str:
        where = "on other cases" if self.held_out else "on the data of the fit"
        size = int(np.prod(self.instances.shape))
        return f"Assessment {where}: {size} instances of {self.problem!r}"

    @property
    def instances(self) -> Instances:
        return self.predictor.trace.instances

    @cached_property
    def decisions(self) -> "xr.DataArray":
        """The best decision for each instance under the calibrated posterior."""
        return self.labels(self._calibrated)

    @cached_property
    def vi_decisions(self) -> "xr.DataArray":
        """The best decision for each instance under plain VI."""
        return self.labels(self._plain)

    @property
    def found(self) -> "dict[str, np.ndarray]":
        """The same decisions of both, as numbers."""
        both = {"VI": self._plain}
        return {**both, "LCVI": self._calibrated} if "LCVI" in self.posteriors else both

    @cached_property
    def _plain(self) -> np.ndarray:
        return self._found(self.posteriors["VI"])

    @cached_property
    def _calibrated(self) -> np.ndarray:
        return self._found(self.posteriors["LCVI"])

    def labels(self, decisions: np.ndarray) -> "xr.DataArray":
        """Decisions as users see them, with the names of their axes and members."""
        return labelled_decisions(self.problem.space, decisions, self.instances, self.coords)

    @cached_property
    def observations(self) -> Observations | None:
        """The outcomes that were observed and which of them count; None where there are none."""
        return predicting.observations(self.posteriors["VI"], self.predictor)

    @property
    def observed(self) -> "xr.DataArray | None":
        """The outcomes observed, nan where the model masks them; None where there are none."""
        if self.observations is None:
            return None
        outcomes, counted, _ = self.observations
        counted = counted.reshape(counted.shape + (1,) * (outcomes.ndim - counted.ndim))
        return self._labelled(np.where(counted, outcomes, np.nan), self.problem.outcome)

    @cached_property
    def predicted(self) -> np.ndarray:
        """Outcomes drawn from the calibrated predictive distribution: draw x instance.

        Many draws for a few instances, a few for many.
        """
        return self._drawn(self.posteriors["LCVI"])

    @cached_property
    def vi_predicted(self) -> np.ndarray:
        """Outcomes drawn from the predictive distribution of plain VI: draw x instance."""
        return self._drawn(self.posteriors["VI"])

    @cached_property
    def interval(self) -> np.ndarray:
        """The central 90 % of the calibrated predictions: instance x (low, high)."""
        return predictive_quantiles(self.predicted, np.array(INTERVAL))

    @cached_property
    def comparison(self) -> Comparison:
        return self.compared()

    def compared(self, nuts: SampledPosterior | None = None, *, by: By = None) -> Comparison:
        """Risk of VI's and the calibrated decisions, and of those of NUTS where given."""
        if nuts is not None:
            checks.instance("`nuts=`", nuts, SampledPosterior, "what `result.nuts(draws)` returns")
        check_judged(self.problem)
        dependence = dependence_of(self.by if by is None else by, self.predictor)
        seen = self.observations
        if seen is None:
            raise InputError(
                f"`compare(held_out=...)` needs the observed {self.problem.outcome!r}; to decide "
                f"without it, use `decide(...)`."
            )
        if not seen.counted.any():
            raise InputError("`compare(...)`: the mask leaves no instance to compare on.")
        decided = self.found
        if nuts is not None:
            decided["NUTS"] = self._found(nuts)
        task = self.problem.task
        costs = {name: seen.costs(task, found) for name, found in decided.items()}
        where = " x ".join(self.instances.dims) or "one number"
        return Comparison(
            costs=costs,
            gain=self.problem.loss is None,
            setting=f"{len(costs['VI'])} instances over {where}; {task.criterion.title}; "
            f"{self.setting}.",
            held_out=self.held_out,
            notes=self.unconverged,
            nuts=None if nuts is None else nuts.diagnostics,
            dependence=dependence.among(seen.counted),
        )

    def decided(self, posterior: Posterior) -> "xr.DataArray":
        """The best decision for each instance under any posterior."""
        _check_posterior(posterior)
        return self.labels(self._found(posterior))

    def _found(self, posterior: Posterior) -> np.ndarray:
        return decided(self.problem, posterior, self.predictor, self.expectation, self.keys)

    def expected(self, posterior: Posterior, decision: float, draws: int) -> np.ndarray:
        """What a decision for all would cost, or be worth: (mean, 5 %, 95 %) x instance."""
        task, key = self.problem.task, self.keys.decisions
        some = (*self.problem.some_decisions, decision) if self.problem.action else ()
        spread = predicting.outcomes_by_batch(posterior, self.predictor, self.keys.spread, some)
        wide = self.expectation.widen_for(spread)
        return predicting.expected(task, posterior, self.predictor, wide, key, decision, draws)

    def predictive(self, posterior: Posterior, draws: int) -> "xr.Dataset":
        """Draws of the outcome, as ArviZ expects them."""
        import xarray as xr

        _check_posterior(posterior)
        draws = checks.whole("`predictive(draws=...)`", draws)
        found = predicting.predict(posterior, self.predictor, self.keys.predictions, draws)[None]
        name = self.problem.outcome
        return xr.Dataset({name: self._labelled(found, name, ("chain", "draw"))})

    def _drawn(self, posterior: Posterior) -> np.ndarray:
        size = int(np.prod(self.instances.shape))
        draws = int(np.clip(MOST_VALUES // max(size, 1), 50, 4000))
        found = predicting.predict(posterior, self.predictor, self.keys.predictions, draws)
        return found.reshape(draws, -1)

    def _labelled(
        self, values: np.ndarray, name: str, leading: tuple[str, ...] = ()
    ) -> "xr.DataArray":
        return labelled(values, self.instances, self.coords, name, leading)


def decided(
    problem: Problem,
    posterior: Posterior,
    predictor: Predictor,
    expectation: Expectation,
    keys: Keys,
    asked: np.ndarray | None = None,
    most_draws: int | None = None,
) -> np.ndarray:
    """The best decision for each instance under a posterior; for some, where they are asked for."""
    # Outcomes of other cases may spread over more values than those of the fit.
    some = problem.some_decisions
    outcomes = predicting.outcomes_by_batch(posterior, predictor, keys.spread, some)
    wide = expectation.widen_for(outcomes)
    size, draws = int(np.prod(predictor.trace.instances.shape)), None
    if most_draws is not None:
        draws = min(most_draws, predicting.draws_to_decide(problem.task, wide, size))
    key = keys.decisions
    found = predicting.decide(problem.task, posterior, predictor, wide, key, draws, asked)
    check_decisions(found)
    return found


def check_judged(problem: Problem) -> None:
    reason, instead = (
        why_not_judged(problem),
        "Compare `result.decisions` with `result.vi_decisions`",
    )
    if problem.action is not None:
        instead = "Look at `result.expected(...)`"
    if reason is not None:
        raise InputError(f"{reason} {instead}.")


def why_not_judged(problem: Problem) -> str | None:
    """Why the data cannot say how good decisions have been; None where they can."""
    if problem.about_latent:
        return (
            f"Decisions about {problem.outcome!r}, which is never observed, cannot be judged by "
            f"data: they rest on the model alone."
        )
    if problem.action is not None:
        return (
            f"Decisions about {problem.action!r} change the outcome, and the outcomes in the data "
            f"happened at the decisions that were made: they cannot say what other decisions would "
            f"have led to. Try these to find out."
        )
    return None


def _check_posterior(posterior: object) -> None:
    known = "one such as `assessment.posteriors['VI']`"
    checks.choice("`posterior`", posterior, Posterior, known, hashable=False)


def labelled(
    values: np.ndarray,
    instances: Instances,
    coords: Mapping[str, Any],
    name: str,
    leading: tuple[str, ...] = (),
) -> "xr.DataArray":
    """An array with the names of its axes, and labels or numbers of their members."""
    import pandas as pd
    import xarray as xr

    further = values.ndim - len(leading) - len(instances.dims)
    dims = (*leading, *instances.dims, *(f"{name}_dim_{axis}" for axis in range(further)))
    labels = {
        # A range takes no memory, however many rows it numbers.
        dim: np.asarray(coords[dim]) if dim in coords else pd.RangeIndex(size)
        for dim, size in zip(dims, values.shape, strict=True)
    }
    return xr.DataArray(values, dims=dims, coords=labels, name=name)


def labelled_decisions(
    space: Space, decisions: np.ndarray, instances: Instances, coords: Mapping[str, Any]
) -> "xr.DataArray":
    """Decisions as users see them; their parts, where there are several, along a last axis."""
    shown = space.to_labels(decisions)
    if not space.axes:
        return labelled(shown, instances, coords, "decision")
    names = {"part": list(space.names), **coords}
    return labelled(shown, instances, names, "decision", ("part",)).transpose(..., "part")


def predictive_quantiles(draws: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Instance x level; quantiles of whole numbers are whole numbers, too."""
    method: Any = "inverted_cdf" if are_whole_numbers(draws) else "linear"
    found = np.empty((draws.shape[1], len(levels)))
    for start in range(0, draws.shape[1], 10_000):
        some = slice(start, start + 10_000)
        found[some] = np.quantile(draws[:, some], levels, axis=0, method=method).T
    return found


def are_whole_numbers(values: np.ndarray) -> bool:
    return bool((values == np.round(values)).all())
