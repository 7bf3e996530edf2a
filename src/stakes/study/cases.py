"""Cases to decide about: those of a fit or others, and all that posteriors say of them.

Decisions, predictions and expected costs are computed once for each posterior, and handed to
comparisons, exports and reports. All posteriors get the same random numbers, so that their
decisions differ by no luck of the draw.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Data
from stakes.bridge import Predictor
from stakes.decisions import DecisionTask
from stakes.errors import InputError, NumericalError, some
from stakes.port import Instances
from stakes.predicting import CENTRAL, FittedPosterior, Observations, Posterior, SampledPosterior
from stakes.problem import Problem
from stakes.protocols import Expectation
from stakes.study.comparison import Comparison
from stakes.study.dependence import By, dependence_of
from stakes.study.options import Keys

if TYPE_CHECKING:
    import xarray as xr

_LOW = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4)
# Levels of the predictive quantiles that a calibration map sees, denser in the tails, where
# lopsided losses put their decisions.
LEVELS: tuple[float, ...] = (*_LOW, 0.5, *(round(1 - level, 3) for level in reversed(_LOW)))
# Cases whose draws are sorted at once, to bound the memory of their copies.
AT_ONCE = 10_000


def predictive_quantiles(draws: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles of what is predicted: case x level.

    Quantiles of whole numbers are whole numbers, too.

    Args:
        draws: of the outcomes, draw x case.
        levels: between 0 and 1.
    """
    method: Any = "inverted_cdf" if are_whole_numbers(draws) else "linear"
    quantiles = np.empty((draws.shape[1], len(levels)))
    for start in range(0, draws.shape[1], AT_ONCE):
        part = slice(start, start + AT_ONCE)
        quantiles[part] = np.quantile(draws[:, part], levels, axis=0, method=method).T
    return quantiles


def are_inside(central: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Return whether outcomes lie in the central 50 and 90 % of a forecast: ... x case x (50 %, 90
    %).

    Args:
        central: case x (5, 25, 75, 95 %), as in `Forecast`.
        outcomes: one for each case, or draws of them.
    """
    low, lower, upper, high = central.T
    half, most = (lower, upper), (low, high)
    inside = [(start <= outcomes) & (outcomes <= end) for start, end in (half, most)]
    return np.stack(inside, axis=-1)


def are_whole_numbers(values: np.ndarray) -> bool:
    """Return whether all of these are whole numbers."""
    return bool((values == np.round(values)).all())


# Predicted outcomes held at once: about 32 MB in double precision.
MOST_VALUES = 4_000_000
# Predicted outcomes of each case: more say little more, and fewer say little about the tails.
MOST_DRAWN, FEWEST_DRAWS = 2_000, 200
# Cases times draws of θ, to decide by where decisions are only judged.
MOST_DECIDED = 2**20
# What a report says in place of a verdict about calibration.
NOT_CALIBRATED = "Calibrated VI was not among the strategies compared, and was not fitted."

Value = TypeVar("Value")


class Forecast(NamedTuple):
    """Quantiles of what a strategy predicts for each case.

    Attributes:
        quantiles: case x level, at the levels that calibration maps see.
        central: case x (low of 90 %, low of 50 %, high of 50 %, high of 90 %).
    """

    quantiles: np.ndarray
    central: np.ndarray


@final
@dataclass(frozen=True, eq=False, repr=False)
class Cases:
    """Cases with their data, and what posteriors decide and predict for them, computed once.

    `Calibration.assess` makes them for a calibration, whose posteriors are "VI" and "LCVI", the
    calibrated one, unless only plain VI was fitted.

    Attributes:
        predictor: the model on the data of these cases.
        expectation: how the loss or utility is averaged over outcomes.
        keys: random keys, the same for all posteriors.
        coords: labels of members, by plate.
        held_out: whether these are other cases than those of the fit.
        start: the posterior that fits begin with: what was observed is the same under any.
        posteriors: those to compare, by name.
        setting: how the posteriors were fitted, in words.
        unconverged: fits that did not converge, and why they ended.
        by: which cases belong together, as in `Calibration.compare`.
        asked: the cases asked about; for others, decisions and forecasts may be anything.
        most_draws: draws of θ to decide by; None for many.
    """

    problem: Problem
    predictor: Predictor
    expectation: Expectation
    keys: Keys
    coords: Mapping[str, Any]
    held_out: bool
    start: FittedPosterior
    posteriors: Mapping[str, FittedPosterior] = field(default_factory=dict)
    setting: str = ""
    unconverged: tuple[str, ...] = ()
    by: By = None
    asked: np.ndarray | None = None
    most_draws: int | None = None
    _kept: dict[tuple[str, int], Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        checks.fields(self, problem=Problem, predictor=Predictor, keys=Keys, coords=Mapping)
        checks.fields(self, start=FittedPosterior, posteriors=Mapping, setting=str)
        checks.flags(self, "held_out")
        checks.names("`Cases(unconverged=...)`", self.unconverged)
        known = "one such as `Quadrature()`"
        checks.choice("`Cases(expectation=...)`", self.expectation, Expectation, known)
        task = self.problem.task
        task.check_columns(self.predictor.columns(task.needs))

    def __repr__(self) -> str:
        where = "other cases" if self.held_out else "the data of the fit"
        return f"Cases, {where}: {self.size} cases of {self.problem!r}"

    @property
    def instances(self) -> Instances:
        """The shape of the cases, and the names of its axes."""
        return self.predictor.trace.instances

    @property
    def size(self) -> int:
        """The number of cases."""
        return int(np.prod(self.instances.shape))

    @property
    def data(self) -> Data:
        """All arguments of the model."""
        return {**self.predictor.trace.constants, **self.predictor.arrays}

    def judged(self, asked: np.ndarray | None = None) -> "Cases":
        """Return the same cases, decided by fewer draws because decisions are only judged there.

        All strategies have the same 512 draws, or fewer for many cases. More draws change a
        decision by little beside the spread of outcomes.

        Args:
            asked: the cases that are judged; all of them where left out.
        """
        draws = int(np.clip(MOST_DECIDED // max(self.size, 1), 128, 512))
        return replace(self, asked=asked, most_draws=draws)

    # What posteriors decide and predict.

    def decide(self, posterior: Posterior) -> np.ndarray:
        """Return the best decision for each case under a posterior."""
        _check_posterior(posterior)
        return self._once("decide", posterior, lambda: self._decide(posterior))

    def _decide(self, posterior: Posterior) -> np.ndarray:
        problem, draws, key = self.problem, None, self.keys.decisions
        wide = self._wide_enough(posterior, problem.some_decisions)
        if self.most_draws is not None:
            draws = predicting.draws_to_decide(problem.task, wide, self.size)
            draws = min(self.most_draws, draws)
        decisions = predicting.decide(
            problem.task, posterior, self.predictor, wide, key, draws, self.asked
        )
        check_decisions(decisions)
        return decisions

    def _wide_enough(self, posterior: Posterior, decisions: Sequence[float]) -> Expectation:
        """Return the expectation, wide enough for all outcomes that a posterior predicts here.

        These outcomes may spread over more values than those of the fit.
        """
        outcomes = predicting.outcomes_by_batch(
            posterior, self.predictor, self.keys.spread, decisions
        )
        return self.expectation.widen_for(outcomes)

    @property
    def _task(self) -> DecisionTask:
        """Decisions and costs, with the values of these cases in place."""
        task = self.problem.task
        return task.at(self.predictor.columns(task.needs))

    def forecast(self, posterior: Posterior) -> Forecast:
        """Return quantiles of what a posterior predicts for each case."""

        def make() -> Forecast:
            levels = np.array([*LEVELS, *CENTRAL])
            quantiles = predictive_quantiles(self.drawn(posterior), levels)
            return Forecast(quantiles[:, : len(LEVELS)], quantiles[:, len(LEVELS) :])

        return self._once("forecast", posterior, make)

    def drawn(self, posterior: Posterior) -> np.ndarray:
        """Return outcomes that a posterior predicts, draw x case; more draws for fewer cases.

        They are kept, unless there are many cases, or many posteriors because decisions are only
        judged here.
        """
        if self.most_draws is not None:
            return self._drawn(posterior, MOST_VALUES // 4, MOST_DRAWN)
        if self.size * FEWEST_DRAWS > MOST_VALUES:
            return self._drawn(posterior, MOST_VALUES, FEWEST_DRAWS)
        return self._once(
            "drawn", posterior, lambda: self._drawn(posterior, MOST_VALUES, MOST_DRAWN)
        )

    def _drawn(self, posterior: Posterior, values: int, most: int) -> np.ndarray:
        draws = int(np.clip(values // max(self.size, 1), FEWEST_DRAWS, most))
        drawn = predicting.predict(
            posterior, self.predictor, self.keys.predictions, draws, self.asked
        )
        return np.asarray(drawn).reshape(len(drawn), -1)

    def expected_costs(self, posterior: Posterior, decisions: np.ndarray) -> np.ndarray:
        """Return what a posterior expects each decision to cost.

        For a problem given by a utility, minus the expected utility.
        """
        return self.mean_costs(self.drawn(posterior), decisions)

    def mean_costs(self, drawn: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        """Return what each decision costs on average over drawn outcomes.

        Args:
            drawn: outcomes, draw x case.
            decisions: one for each case.
        """
        outcomes = jnp.asarray(drawn.reshape(-1, *self.instances.shape))
        packed = self.problem.space.unpack(jnp.asarray(decisions))
        cost = self._task.criterion.cost(outcomes, packed)
        mean: np.ndarray = np.asarray(cost, np.float64).mean(axis=0)
        return mean.ravel()

    def expected(self, posterior: Posterior, decision: float, draws: int) -> np.ndarray:
        """Return what one decision for all would cost, or be worth: (mean, 5 %, 95 % over θ) x
        case.

        Args:
            posterior: what is believed.
            decision: the same for all cases.
            draws: of θ.
        """
        task, key = self.problem.task, self.keys.decisions
        decisions = (*self.problem.some_decisions, decision) if self.problem.action else ()
        wide = self._wide_enough(posterior, decisions)
        return np.asarray(
            predicting.expected(task, posterior, self.predictor, wide, key, decision, draws)
        )

    def predictive(self, posterior: Posterior, draws: int) -> "xr.Dataset":
        """Return draws of the outcome, as ArviZ expects them."""
        import xarray as xr

        _check_posterior(posterior)
        draws = checks.whole("`predictive(draws=...)`", draws)
        drawn = predicting.predict(posterior, self.predictor, self.keys.predictions, draws)[None]
        name = self.problem.outcome
        return xr.Dataset({name: self.with_labels(drawn, name, ("chain", "draw"))})

    def inside(self, decisions: np.ndarray) -> np.ndarray:
        """Return the nearest decisions that are allowed."""
        return np.array(self._task.space.inside(jnp.asarray(decisions)))

    def covariates(self, names: Sequence[str]) -> np.ndarray | None:
        """Return data arguments that have one row for each case, side by side: case x column.

        Args:
            names: of the arguments; None is returned where there are none.
        """
        shape, columns = self.instances.shape, []
        for name in names:
            values = np.asarray(self.data[name]) if name in self.data else None
            if values is None or values.shape[: len(shape)] != shape:
                came = "is not there" if values is None else f"has the shape {values.shape}"
                raise InputError(
                    f"A correction asks for the covariate {name!r}, which {came}; it must be a "
                    f"data argument with a row for each outcome, in the shape {shape}. There are "
                    f"{some(self.data)}."
                )
            columns.append(values.reshape(self.size, -1))
        return np.concatenate(columns, axis=1).astype(float) if columns else None

    # What was observed, and what decisions have cost.

    @cached_property
    def observations(self) -> Observations | None:
        """The outcomes observed and which of them count; None where there are none."""
        return predicting.observations(self.start, self.predictor)

    @property
    def observed(self) -> "xr.DataArray | None":
        """The outcomes observed, nan where the model masks them; None where there are none."""
        if self.observations is None:
            return None
        outcomes, counted, _ = self.observations
        counted = counted.reshape(counted.shape + (1,) * (outcomes.ndim - counted.ndim))
        return self.with_labels(np.where(counted, outcomes, np.nan), self.problem.outcome)

    @cached_property
    def comparison(self) -> Comparison:
        """Risk of the decisions by each of the posteriors."""
        return self.compared()

    def compared(self, nuts: SampledPosterior | None = None, *, by: By = None) -> Comparison:
        """Compare the decisions by each of the posteriors.

        Args:
            nuts: draws of NUTS, to compare their decisions, too.
            by: which cases belong together, as in `Calibration.compare`.
        """
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
            raise InputError("`compare(...)`: the mask leaves no case to compare on.")
        task, posteriors = self.problem.task, dict[str, Posterior](self.posteriors)
        posteriors |= {} if nuts is None else {"NUTS": nuts}
        costs = {name: seen.costs(task, self.decide(each)) for name, each in posteriors.items()}
        where = " x ".join(self.instances.dims) or "one number"
        return Comparison(
            costs=costs,
            gain=self.problem.loss is None,
            setting=f"{len(costs['VI'])} cases over {where}; {task.criterion.title}; "
            f"{self.setting}.",
            held_out=self.held_out,
            notes=self.unconverged,
            nuts=None if nuts is None else nuts.diagnostics,
            dependence=dependence.among(seen.counted),
        )

    # Arrays as users see them.

    @property
    def decisions(self) -> "xr.DataArray":
        """The best decision for each case under the calibrated posterior."""
        return self.labels(self.decide(self.posteriors["LCVI"]))

    @property
    def vi_decisions(self) -> "xr.DataArray":
        """The best decision for each case under plain VI."""
        return self.labels(self.decide(self.posteriors["VI"]))

    @property
    def by_posterior(self) -> dict[str, np.ndarray]:
        """The best decisions under each of the posteriors, as numbers."""
        return {name: self.decide(posterior) for name, posterior in self.posteriors.items()}

    def labels(self, decisions: np.ndarray) -> "xr.DataArray":
        """Return decisions as users see them; several parts lie along a last axis."""
        space = self.problem.space
        shown = space.to_labels(decisions)
        if not space.axes:
            return self.with_labels(shown, "decision")
        names = {"part": list(space.names), **self.coords}
        parts = with_labels(shown, self.instances, names, "decision", ("part",))
        return parts.transpose(..., "part")

    def with_labels(
        self, values: np.ndarray, name: str, leading: tuple[str, ...] = ()
    ) -> "xr.DataArray":
        """Return values for each case with the names of their axes and members."""
        return with_labels(values, self.instances, self.coords, name, leading)

    def take_over(self, other: "Cases") -> None:
        """Take over what was computed for the same cases before."""
        self._kept.update(other._kept)

    def _once(self, what: str, posterior: Posterior, make: Callable[[], Value]) -> Value:
        """Return what `make` makes, once for each posterior.

        A posterior is known by its numbers, which are kept, so that their address stays theirs.
        """
        numbers = posterior.numbers
        key = (what, id(numbers))
        if key not in self._kept:
            self._kept[key] = numbers, make()
        value: Value = self._kept[key][1]
        return value


def _check_posterior(posterior: object) -> None:
    known = "one such as `cases.posteriors['VI']`"
    checks.choice("`posterior`", posterior, Posterior, known, hashable=False)


def check_decisions(decisions: np.ndarray) -> None:
    """Refuse decisions that are not finite."""
    for end, where, too in ((-np.inf, "falls", "low"), (np.inf, "rises", "high")):
        endless = decisions == end
        if endless.any():
            raise NumericalError(
                f"{int(endless.sum())} of {decisions.size} decisions are infinite: a decision gets "
                f"better, or at least no worse, as it {where}. It needs limits: let the loss or "
                f"utility say what too {too} a decision costs."
            )
    bad = ~np.isfinite(decisions)
    if bad.any():
        raise NumericalError(
            f"{int(bad.sum())} of {decisions.size} decisions are not finite, because the expected "
            f"loss or utility is not. Either the window of an enumeration is too small (give a "
            f"larger `Enumeration(points=...)`), or the expectation of the loss is infinite."
        )


def check_judged(problem: Problem) -> None:
    """Refuse a problem whose decisions data cannot judge."""
    reason = problem.why_not_judged
    if reason is not None:
        instead = "Compare `result.decisions` with `result.vi_decisions`"
        if problem.action is not None:
            instead = "Look at `result.expected(...)`"
        raise InputError(f"{reason} {instead}.")


def with_labels(
    values: np.ndarray,
    instances: Instances,
    coords: Mapping[str, object],
    name: str,
    leading: tuple[str, ...] = (),
) -> "xr.DataArray":
    """Return an array with the names of its axes, and labels or numbers of their members.

    Args:
        values: leading axes, those of the cases, and any further axes.
        instances: the shape of the cases, and the names of its axes.
        coords: labels of members, by axis.
        name: of the array, and of its further axes.
        leading: names of the leading axes.
    """
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
