"""What a calibration gives back: decisions, posteriors, and whether it helped."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes import evaluation, numpyro_adapter
from stakes.algorithms import EM, Joint
from stakes.approximation import Instances
from stakes.comparison import Comparison
from stakes.errors import InputError, StakesWarning, some
from stakes.evaluation import Fitted, Posterior, Sampled
from stakes.expectation import Expectation
from stakes.fitting import Fit
from stakes.numpyro_adapter import NumPyroApproximation, Predictor
from stakes.preparation import Coords, Plan, check_coords, check_decisions
from stakes.problem import Problem
from stakes.typing import Data, Key
from stakes.utilities import Transform

if TYPE_CHECKING:
    import xarray as xr


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """Decisions, the calibrated posterior behind them, and whether calibration helped."""

    problem: Problem
    approximation: NumPyroApproximation
    vi: Fit
    calibrated: Fit
    transform: Transform | None
    """With M found; None for a problem given by a utility."""
    expectation: Expectation
    method: Joint | EM
    coords: dict[str, Any]
    key: Key
    _nuts: dict[int, Sampled] = field(default_factory=dict, init=False, repr=False)
    """By the number of draws."""

    @classmethod
    def of(
        cls, plan: Plan, vi: Fit, calibrated: Fit, coords: Coords | None, key: Key
    ) -> "Calibration":
        return cls(
            problem=plan.problem,
            approximation=plan.approximation,
            vi=vi,
            calibrated=calibrated,
            transform=plan.transform,
            expectation=plan.expectation,
            method=plan.method,
            coords=dict(coords or {}),
            key=key,
        )

    @property
    def scale(self) -> float | None:
        """M_q; None for a problem given by a utility."""
        return None if self.transform is None else self.transform.scale

    @cached_property
    def decisions(self) -> "xr.DataArray":
        """The best decision for each instance under the calibrated posterior."""
        return self._decided(self.calibrated)

    @cached_property
    def vi_decisions(self) -> "xr.DataArray":
        """The best decision for each instance under plain VI."""
        return self._decided(self.vi)

    def decide(
        self,
        data: Data,
        *,
        new: Sequence[str] = (),
        known: Sequence[str] = (),
        coords: Coords | None = None,
        fit: Fit | None = None,
    ) -> "xr.DataArray":
        """Decisions for other cases, outcomes not needed; by the calibrated fit by default.

        A plate whose size differs from the fit's holds new members, and what is local to them is
        drawn from the model; a plate of the same size holds the members of the fit. Say
        otherwise with `new=` or confirm it with `known=`.
        """
        predictor = self._predictor(data, new, known)
        check_coords(coords, predictor.instances)
        found = self._decide(fit or self.calibrated, predictor)
        same = numpyro_adapter.same_members(predictor)
        kept = {name: labels for name, labels in self.coords.items() if name in same}
        return _labelled(found, predictor.instances, {**kept, **(coords or {})}, "decision")

    def compare(
        self,
        held_out: Data | None = None,
        *,
        new: Sequence[str] = (),
        known: Sequence[str] = (),
        nuts: int | None = None,
    ) -> Comparison:
        """Risk of VI's and the calibrated decisions, on the data of the fit or on held-out data.

        Args:
            held_out: data with observed outcomes; plates as in `decide`.
            nuts: also compare with this many draws of NUTS, the posterior itself.
        """
        predictor = self._predictor(held_out, new, known)
        seen = evaluation.observations(self._posterior(self.vi), predictor)
        if seen is None:
            raise InputError(
                f"`compare(held_out=...)` needs the observed {self.problem.outcome!r}; use "
                f"`decide(...)` for decisions alone."
            )
        if not seen.counted.any():
            raise InputError("`compare(...)`: the mask leaves no instance to compare on.")
        fits = {"VI": self.vi, "LCVI": self.calibrated}
        posteriors: dict[str, Posterior] = {n: self._posterior(fit) for n, fit in fits.items()}
        if nuts is not None:
            posteriors["NUTS"] = self.nuts(nuts)
        costs = {
            name: seen.costs(self.problem, self._decide(posterior, predictor))
            for name, posterior in posteriors.items()
        }
        return Comparison(
            costs=costs,
            gain=self.problem.loss is None,
            setting=self._setting(len(costs["VI"]), predictor.instances),
            held_out=held_out is not None,
            notes=tuple(
                f"{name}: {fit.reason}." for name, fit in fits.items() if not fit.converged
            ),
        )

    def observed(
        self, data: Data | None = None, *, new: Sequence[str] = (), known: Sequence[str] = ()
    ) -> "xr.DataArray | None":
        """The outcomes observed, nan where the model masks them; None where there are none."""
        predictor = self._predictor(data, new, known)
        seen = evaluation.observations(self._posterior(self.vi), predictor)
        if seen is None:
            return None
        found = np.where(seen.counted, seen.outcomes, np.nan)
        coords = self.coords if data is None else {}
        return _labelled(found, predictor.instances, coords, self.problem.outcome)

    def posterior(self, fit: Fit | None = None, *, draws: int = 1000) -> "xr.Dataset":
        """Draws from a fit's posterior (the calibrated one by default), as ArviZ expects them."""
        import xarray as xr

        chosen = fit or self.calibrated
        found = evaluation.latent_draws(self._posterior(chosen), self.key, draws)
        latents = self.approximation.structure.latents
        return xr.Dataset(
            {
                name: _labelled(values[None], latents[name], self.coords, name, ("chain", "draw"))
                for name, values in found.items()
            }
        )

    def predictive(
        self,
        data: Data | None = None,
        *,
        fit: Fit | None = None,
        draws: int = 1000,
        new: Sequence[str] = (),
        known: Sequence[str] = (),
    ) -> "xr.Dataset":
        """Draws of the outcome from a fit's predictive distribution (the calibrated by default)."""
        import xarray as xr

        predictor = self._predictor(data, new, known)
        posterior = self._posterior(fit or self.calibrated)
        found = evaluation.predict(posterior, predictor, self.key, draws)[None]
        coords = self.coords if data is None else {}
        name = self.problem.outcome
        return xr.Dataset(
            {name: _labelled(found, predictor.instances, coords, name, ("chain", "draw"))}
        )

    def predictive_scale(self, quantile: float = 0.9, *, draws: int = 100) -> float:
        """M_q over losses of predicted outcomes instead of observed ones, under plain VI.

        The paper's text takes the quantile over training instances, which is what `calibrate`
        does; its notebooks take it over predictive draws, which is this. Pass the result as
        `scale=` of a transform.
        """
        predictor = self._predictor(None, (), ())
        costs = evaluation.predictive_costs(
            self.problem,
            self._posterior(self.vi),
            predictor,
            self.vi_decisions.values,
            self.key,
            draws,
        )
        return float(np.quantile(costs, quantile))

    def __repr__(self) -> str:
        fits = f"  VI          {self.vi!r}\n  calibrated  {self.calibrated!r}"
        shape = self.approximation.instances.shape
        return (
            f"Calibration of {self.problem!r}\n  {self._how()}; decisions of shape {shape}\n{fits}"
        )

    def _how(self) -> str:
        transform = "utility as given"
        if self.transform is not None:
            transform = f"{type(self.transform).__name__}, M = {self.scale:.4g}"
        return f"{transform}; expectation {self.expectation}"

    def nuts(self, draws: int) -> Sampled:
        """The posterior itself, by NUTS after as many steps of warm-up; made once."""
        if draws not in self._nuts:
            samples = numpyro_adapter.nuts(
                self.approximation, self.key, warmup=draws, draws=draws, progress=False
            )
            self._nuts[draws] = Sampled(samples)
        return self._nuts[draws]

    def _setting(self, count: int, instances: Instances) -> str:
        return (
            f"{count} instances over {' x '.join(instances.dims) or 'one number'}; "
            f"{self.problem.cost_name}; {self._how()}."
        )

    def _decided(self, fit: Fit) -> "xr.DataArray":
        predictor = self._predictor(None, (), ())
        found = self._decide(fit, predictor)
        return _labelled(found, predictor.instances, self.coords, "decision")

    def _decide(self, fit: Fit | Posterior, predictor: Predictor) -> np.ndarray:
        posterior = self._posterior(fit) if isinstance(fit, Fit) else fit
        # Other cases may spread over more values than those of the fit.
        expectation = evaluation.widened(self.expectation, posterior, predictor, self.key)
        found = evaluation.decide(self.problem, posterior, predictor, expectation, self.key)
        check_decisions(found)
        return found

    def _posterior(self, fit: Fit) -> Fitted:
        return Fitted(self.approximation, fit.params)

    def _predictor(self, data: Data | None, new: Sequence[str], known: Sequence[str]) -> Predictor:
        if data is None:
            return numpyro_adapter.predictor(self.problem, self.approximation)
        checked = self.problem.check_data(data, needs_outcome=False)
        predictor = numpyro_adapter.predictor(self.problem, self.approximation, checked, new=new)
        unsaid = [p for p in numpyro_adapter.same_members(predictor) if p not in known]
        if unsaid and self._has_changed(checked):
            warnings.warn(
                f"The plate {some(unsaid)} has as many members as in the fit and is taken to hold "
                f"the same ones. If they are new, say `new={tuple(unsaid)}`; if they are the same, "
                f"say `known={tuple(unsaid)}`.",
                StakesWarning,
                stacklevel=3,
            )
        return predictor

    def _has_changed(self, data: Mapping[str, Any]) -> bool:
        """Whether a covariate differs from the fit's."""
        before = self.approximation.data
        return any(
            name != self.problem.outcome
            and not (name in before and np.array_equal(value, before[name]))
            for name, value in data.items()
        )


def _labelled(
    values: np.ndarray,
    instances: Instances,
    coords: Mapping[str, Any],
    name: str,
    leading: tuple[str, ...] = (),
) -> "xr.DataArray":
    import xarray as xr

    dims = (*leading, *instances.dims)
    labels = {
        dim: np.asarray(coords[dim]) if dim in coords else np.arange(size)
        for dim, size in zip(dims, values.shape, strict=True)
    }
    return xr.DataArray(values, dims=dims, coords=labels, name=name)
