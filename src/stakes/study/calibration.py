"""What a calibration gives back: decisions, posteriors, and whether it helped."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final, overload

import jax
import numpy as np

from stakes import checks, predicting
from stakes._types import Data, TableLike
from stakes.bridge import NumPyroApproximation, nuts
from stakes.errors import InputError
from stakes.fitting import Fit, Stop
from stakes.predicting import FittedPosterior, SampledPosterior
from stakes.problem import Problem
from stakes.protocols import Expectation, Transform
from stakes.study.cases import Cases, check_judged, with_labels
from stakes.study.comparison import Comparison
from stakes.study.data import CheckedData, Coords, InputData, as_column
from stakes.study.dependence import By, dependence_of
from stakes.study.draws import data_tree, posterior_draws, prior_draws
from stakes.study.leave_one_out import leave_one_out
from stakes.study.options import Keys
from stakes.study.plan import Plan
from stakes.study.streaming import StreamedRows
from stakes.tables import is_table
from stakes.wording import Printed, Printout

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Steps of each chain of NUTS before its draws, in which it adapts its step size.
WARMUP = 500
# Fewer draws than this do not show how heavy the tail of their weights is.
LEAST_DRAWS = 100


@final
@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Printed):
    """Decisions, the calibrated posterior behind them, and whether calibration helped.

    Made by `calibrate`, and printed as a summary.

    Attributes:
        plan: how it was fitted, with M and the expectation found.
        keys: random keys, one for each purpose.
        vi: the fit of plain VI.
        calibrated: the calibrated fit.
        by: which cases belong together, as in `compare`; inferred from the plates if None.
        beyond: all rows of the stream that it was fitted to, of which the data here are a sample.
        home: the cases of the fit, where something is known of them already.
    """

    plan: Plan
    keys: Keys
    vi: Fit
    calibrated: Fit
    by: By = None
    beyond: StreamedRows | None = None
    home: Cases | None = None
    _nuts: dict[int, SampledPosterior] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        checks.fields(self, plan=Plan, keys=Keys, vi=Fit, calibrated=Fit)

    @property
    def problem(self) -> Problem:
        """The model, the name of its outcome, and what a wrong decision costs."""
        return self.plan.problem

    @property
    def approximation(self) -> NumPyroApproximation:
        """The model and the guide with their data."""
        return self.plan.approximation

    @property
    def transform(self) -> Transform | None:
        """The transform from loss to utility, with M; None for a utility."""
        return self.plan.transform

    @property
    def expectation(self) -> Expectation:
        """The expectation that averages loss or utility over outcomes."""
        return self.plan.expectation

    @property
    def scale(self) -> float | None:
        """M_q; None for a problem given by a utility."""
        return None if self.transform is None else self.transform.scale

    @property
    def fits(self) -> dict[str, Fit]:
        """Both fits, by the names that a comparison uses; plain VI, where that is all there is."""
        if self.calibrated.reason is Stop.LEFT_OUT:
            return {"VI": self.vi}
        return {"VI": self.vi, "LCVI": self.calibrated}

    @cached_property
    def posteriors(self) -> dict[str, FittedPosterior]:
        """The posteriors that the fits have found, by the same names."""
        return {n: FittedPosterior(self.approximation, f.params) for n, f in self.fits.items()}

    def posterior_of(self, fit: Fit | None) -> FittedPosterior:
        """The posterior of a fit; of the calibrated one where none is given."""
        rule = "a fit of this model, such as `result.vi` or `result.calibrated`"
        chosen = checks.instance("`fit=`", self.calibrated if fit is None else fit, Fit, rule)
        if _shapes(chosen) != _shapes(self.calibrated):
            raise checks.refused("`fit=`", rule, fit)
        own = (self.posteriors[n] for n, each in self.fits.items() if each is chosen)
        return next(own, None) or FittedPosterior(self.approximation, chosen.params)

    @property
    def decisions(self) -> "xr.DataArray":
        """The best decision for each case under the calibrated posterior, even if it is worse.

        `compare` tells whether it is, and `stakes.choose` decides by what helps.
        A column with the index of the table that it was fitted to, if it was one; for a stream, an
        array on disk, in the order of its rows.
        """
        if self.beyond is not None:
            return self._of_all_rows(self.beyond, self.calibrated)
        return as_column(self.on_fit.decisions, self.plan.table)

    @property
    def vi_decisions(self) -> "xr.DataArray":
        """The best decision for each case under plain VI."""
        if self.beyond is not None:
            return self._of_all_rows(self.beyond, self.vi)
        return as_column(self.on_fit.vi_decisions, self.plan.table)

    @cached_property
    def on_fit(self) -> Cases:
        """The cases of the fit."""
        return self._cases(None)

    def assess(
        self,
        data: InputData,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        by: By = None,
    ) -> Cases:
        """Other cases: what both fits decide and predict for them, and how they compare there.

        Plates as in `decide`, and `by` as in `compare`.
        """
        return self._cases(self.plan.read(data), new, known, coords, by=by)

    def _cases(
        self,
        read: CheckedData | None,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        *,
        by: By = None,
    ) -> Cases:
        """The cases that were read; those of the fit where nothing was."""
        if read is not None and self.beyond is not None:
            # Rows of a stream have numbers and no labels: none is known again.
            new = tuple(dict.fromkeys((*checks.names("`new=`", new), self.beyond.part.plate)))
        by = self.by if read is None else by
        cases = replace(
            self.plan.cases(self.keys, read, new, known, coords),
            posteriors=self.posteriors,
            setting=self.setting,
            unconverged=tuple(
                f"{name}: {fit.reason} after {fit.steps:,} steps."
                for name, fit in self.fits.items()
                if not fit.converged
            ),
            by=by,
        )
        if by is not None:
            dependence_of(by, cases.predictor)  # says what does not fit
        if read is None and self.home is not None:
            cases.take_over(self.home)
        return cases

    def _asked(
        self,
        data: InputData | None,
        new: str | Sequence[str],
        known: str | Sequence[str],
        coords: Coords | None,
        *,
        needs_outcome: bool = False,
    ) -> Cases:
        """The cases with these data; those of the fit where there are none."""
        if data is not None:
            read = self.plan.read(data, needs_outcome=needs_outcome and is_table(data))
            return self._cases(read, new, known, coords)
        named = (*checks.names("`new=`", new), *checks.names("`known=`", known))
        if named or (coords is not None and checks.labels("`coords=`", coords)):
            raise InputError(
                "`new=`, `known=` and `coords=` say who the members of other data are; without "
                "data they have no meaning."
            )
        return self.on_fit

    @property
    def setting(self) -> str:
        """A description of how it was calibrated."""
        transform = "utility as given"
        if self.transform is not None:
            scale = "" if self.scale is None else f", M = {self.scale:.4g}"
            transform = f"{type(self.transform).__name__}{scale}"
        rows = "" if self.beyond is None else f"; {self.beyond}"
        return f"{transform}; expectation {self.expectation}{rows}"

    @overload
    def decide(
        self,
        data: TableLike,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        fit: Fit | None = None,
    ) -> "pd.Series[Any]": ...

    @overload
    def decide(
        self,
        data: Data,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        fit: Fit | None = None,
    ) -> "xr.DataArray": ...

    def decide(
        self,
        data: InputData,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        fit: Fit | None = None,
    ) -> "pd.Series[Any] | xr.DataArray":
        """Decisions for other cases, without their outcomes; by the calibrated fit by default.

        What the fit has learned about a member of a plate is used for that member; the latents of a
        new member are drawn from the model. Labels tell members apart, if the fit has labels, too.
        Without labels, a plate of the same size as in the fit is taken to hold the same members,
        and one of another size to hold new ones; a warning says which, unless `new=` or `known=`
        does.

        Args:
            data: the model's arguments by name, or a table with columns of these names; the outcome
                may be left out. Decisions for a table are a column with its index.
            new: plates of which all members are new.
            known: plates whose members are those of the fit.
            coords: labels of the plates' members, by plate.
            fit: `result.vi` for plain VI's decisions.
        """
        posterior, read = self.posterior_of(fit), self.plan.read(data)
        cases = self._cases(read, new, known, coords)
        return as_column(cases.labels(cases.decide(posterior)), read.table)

    def compare(
        self,
        held_out: InputData | None = None,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
        nuts: int | None = None,
        by: By = None,
    ) -> Comparison:
        """Compare VI's and the calibrated decisions, on the data of the fit or on held-out data.

        Args:
            held_out: data with observed outcomes; plates and their labels as in `decide`.
            nuts: also compare with this many draws of NUTS; the verdict warns if they are not good
                enough to represent the posterior.
            by: which cases belong together, so that the interval is as wide as it has to be.
                The name of a plate, or of an argument with a group for each outcome; an array of
                such groups; a pair of these, such as `("user", "item")`; `stakes.Ordered()` for
                rows in order of time; `stakes.Independent()` for none. By default it is inferred
                from the plates: those that cross in the outcome, and those with ten members or more
                whose latents are shared by outcomes, as in `effect[store]`.
        """
        draws = None if nuts is None else checks.whole("`compare(nuts=...)`", nuts)
        cases = self._asked(held_out, new, known, coords, needs_outcome=True)
        if draws is None and by is None:
            return cases.comparison
        return cases.compared(None if draws is None else self.nuts(draws), by=by)

    def leave_one_out(self, *, draws: int = 4000, by: By = None) -> Comparison:
        """Compare VI's and the calibrated decisions, each made without the outcome that judges it.

        For data sets too small to hold any rows out. Draws of each fit are reweighted as if the
        outcome had not been seen (Pareto-smoothed importance sampling, by arviz-stats); where that
        is not reliable, k̂ above 0.7, the fit is made again without it.

        Args:
            draws: the number of draws of each fit.
            by: as in `compare`.
        """
        check_judged(self.problem)
        self.problem.check_single("`leave_one_out()`")
        if self.problem.task.per is not None:
            raise InputError(
                "`leave_one_out()` judges each decision without its own outcome, and decisions "
                "here are shared. Hold out data: `compare(held_out)`."
            )
        draws = checks.whole("`leave_one_out(draws=...)`", draws, least=LEAST_DRAWS)
        chosen = self.by if by is None else by
        return leave_one_out(self.on_fit, self.plan, self.fits, draws=draws, by=chosen)

    def observed(
        self,
        data: InputData | None = None,
        *,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
    ) -> "xr.DataArray | None":
        """The outcomes observed, nan where the model masks them; None where there are none."""
        return self._asked(data, new, known, coords).observed

    def posterior(self, fit: Fit | None = None, *, draws: int = 1000) -> "xr.Dataset":
        """Draws from a fit's posterior (the calibrated one by default), as ArviZ expects them.

        With the latents come the model's `numpyro.deterministic` sites.
        """
        draws = checks.whole("`posterior(draws=...)`", draws)
        return posterior_draws(self, fit, draws)

    def prior(self, *, draws: int = 1000) -> "xr.Dataset":
        """Draws of the latents before any outcome was seen, laid out as `posterior()` has them.

        Latents of members that come in minibatches are left out.
        """
        draws = checks.whole("`prior(draws=...)`", draws)
        return prior_draws(self, draws)

    def to_arviz(self, *, draws: int = 1000) -> "xr.DataTree":
        """Both fits and their data as ArviZ reads them.

        The groups `posterior`, `posterior_predictive` and `log_likelihood` are of the calibrated
        fit, `vi_posterior`, `vi_posterior_predictive` and `vi_log_likelihood` of plain VI; all of a
        fit belong to the same draws, which are independent and so make up one chain.
        `observed_data` has the outcomes, `constant_data` the model's other arguments, with words
        where a table had words. Outcomes that the model masks are nan, and left out of
        the likelihoods.

        Args:
            draws: the number of draws of each fit.

        Examples:
            >>> from stakes.demos import eight_schools
            >>> import jax, stakes
            >>> problem, data = eight_schools.problem(), eight_schools.data()
            >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
            >>> tree = result.to_arviz(draws=500)
            >>> tree.posterior.theta.dims
            ('chain', 'draw', 'school')
            >>> tree.vi_log_likelihood.effect.shape
            (1, 500, 8)
        """
        draws = checks.whole("`to_arviz(draws=...)`", draws)
        if self.problem.together:
            self.problem.check_single("`to_arviz()`")
        fits, table = {"": self.calibrated, "vi_": self.vi}, self.plan.table
        posteriors = {prefix: self.posterior(fit, draws=draws) for prefix, fit in fits.items()}
        return data_tree(
            self.on_fit,
            {prefix: self.posterior_of(fit) for prefix, fit in fits.items()},
            posteriors,
            draws=draws,
            words={} if table is None else table.coding.categories,
        )

    def latent_draws(self, fit: Fit, draws: int, *, part: int) -> dict[str, np.ndarray]:
        """Draws of every latent along a leading axis; each part has draws of its own."""
        draws = checks.whole("`latent_draws(draws=...)`", draws)
        part = checks.whole("`latent_draws(part=...)`", part, least=0)
        key = jax.random.fold_in(self.keys.parts, part)
        return predicting.latent_draws(self.posterior_of(fit), key, draws)

    def predictive(
        self,
        data: InputData | None = None,
        *,
        fit: Fit | None = None,
        draws: int = 1000,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
    ) -> "xr.Dataset":
        """Draws of the outcome from a fit's predictive distribution (calibrated by default).

        Plates and their labels as in `decide`.
        """
        posterior = self.posterior_of(fit)
        draws = checks.whole("`predictive(draws=...)`", draws)
        return self._asked(data, new, known, coords).predictive(posterior, draws)

    def expected(
        self,
        decisions: Sequence[float] | np.ndarray,
        data: InputData | None = None,
        *,
        fit: Fit | None = None,
        draws: int = 500,
        new: str | Sequence[str] = (),
        known: str | Sequence[str] = (),
        coords: Coords | None = None,
    ) -> "xr.Dataset":
        """What each of these decisions would cost, or be worth, on average: a curve with a band.

        `mean` is the expected loss or utility of the decision for each case; it lies between `low`
        and `high` with a posterior probability of 90 %. Where outcomes share a decision, it is that
        of all of them together. Plates and their labels as in `decide`.

        Args:
            decisions: to be tried, each for all cases.
            data: other cases than those of the fit.
            fit: `result.vi` for plain VI's view.
            draws: the number of draws of θ.
        """
        import xarray as xr

        posterior, cases = self.posterior_of(fit), self._asked(data, new, known, coords)
        draws = checks.whole("`expected(draws=...)`", draws)
        tried = self.problem.space.from_labels("`expected(decisions)`", decisions).ravel()
        found = np.stack([cases.expected(posterior, float(each), draws) for each in tried], axis=1)
        labels = {"decision": self.problem.space.to_labels(tried), **cases.coords}
        return xr.Dataset(
            {
                name: with_labels(values, cases.instances, labels, name, ("decision",))
                for name, values in zip(("mean", "low", "high"), found, strict=True)
            }
        )

    def predictive_scale(self, quantile: float = 0.9, *, draws: int = 100) -> float:
        """M_q over losses of predicted outcomes instead of observed ones, under plain VI.

        The paper's text takes the quantile over training cases, which is what `calibrate`
        does; its notebooks take it over predictive draws, which is this. Pass the result as
        `scale=` of a transform.
        """
        where = "`predictive_scale({}=...)`"
        quantile = checks.number(where.format("quantile"), quantile, above=0, most=1)
        draws = checks.whole(where.format("draws"), draws)
        costs = predicting.predictive_costs(
            self.problem.task,
            self.posterior_of(self.vi),
            self.plan.predictors.on(),
            self.on_fit.decide(self.posteriors["VI"]),
            self.keys.scale,
            draws,
        )
        return float(np.quantile(costs, quantile))

    def nuts(self, draws: int) -> SampledPosterior:
        """Return this many draws of NUTS from four chains, with diagnostics; made once."""
        draws = checks.whole("`nuts(draws)`", draws)
        if draws not in self._nuts:
            how: dict[str, Any] = {"warmup": WARMUP, "draws": draws, "progress": False}
            sampled = nuts(self.approximation, self.keys.nuts, **how)
            self._nuts[draws] = SampledPosterior(*sampled)
        return self._nuts[draws]

    @property
    def printout(self) -> Printout:
        """A table of both fits and how they ended, with advice on what to do next."""
        rows = [["fit", "bound", "steps", "ended"]]
        for name, fit in self.fits.items():
            end = f"{fit.end:.4g}" if fit.steps else ""
            rows.append([name, end, f"{fit.steps:,}", str(fit.reason)])
        shape = self.approximation.instances.shape
        notes = [f"{self.problem!r}", f"{self.setting}; decisions of shape {shape}."]
        lines = ["Decisions are those of the last fit, whether or not they are better."]
        if not self.problem.why_not_judged:
            lines.append("`compare` judges them; `stakes.choose` decides by the best strategy.")
        return Printout(rows, {1, 2}, notes, lines)

    def _of_all_rows(self, beyond: StreamedRows, fit: Fit) -> "xr.DataArray":
        posterior, predictor = self.posterior_of(fit), self.plan.predictors.on()
        found = beyond.decisions(self.problem, posterior, predictor, self.expectation, self.keys)
        shown = self.problem.space.to_labels(found)
        return with_labels(shown, beyond.instances, {}, "decision")


def _shapes(fit: Fit) -> Any:
    return jax.tree.map(np.shape, fit.params)
