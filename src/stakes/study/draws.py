"""Draws of what is learned: from both fits, from the prior and by NUTS."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from stakes import predicting
from stakes._types import Key
from stakes.bridge import NumPyroApproximation, nuts
from stakes.bridge import prior_draws as drawn_from_prior
from stakes.fitting import Fit
from stakes.port import Instances
from stakes.predicting import SampledPosterior
from stakes.study.cases import labelled

if TYPE_CHECKING:
    import xarray as xr

    from stakes.study.calibration import Calibration

WARMUP = 500
"""Steps of each chain of NUTS before its draws."""


def posterior_draws(result: "Calibration", fit: Fit | None, draws: int) -> "xr.Dataset":
    """As `Calibration.posterior` says."""
    posterior, cases = result.posterior_of(fit), result.approximation.trace
    key = result.keys.posterior
    found = predicting.latent_draws(posterior, key, draws)
    found |= predicting.derived_draws(posterior, result.predictors.on(), key, draws)
    return _drawn(result, found, {**cases.latents, **cases.derived})


def prior_draws(result: "Calibration", draws: int) -> "xr.Dataset":
    """As `Calibration.prior` says."""
    found = drawn_from_prior(result.approximation, result.keys.prior, draws)
    return _drawn(result, found, result.approximation.latents)


def _drawn(
    result: "Calibration", found: Mapping[str, Any], axes: Mapping[str, Instances]
) -> "xr.Dataset":
    """Draws of some sites, as one chain."""
    import xarray as xr

    return xr.Dataset(
        {
            name: labelled(values[None], axes[name], result.coords, name, ("chain", "draw"))
            for name, values in found.items()
        }
    )


@final
class NutsRuns:
    """Draws of NUTS, made once for each number of draws."""

    def __init__(self, approximation: NumPyroApproximation, key: Key) -> None:
        self._approximation, self._key = approximation, key
        self._made: dict[int, SampledPosterior] = {}

    def draws(self, count: int) -> SampledPosterior:
        if count not in self._made:
            found = nuts(self._approximation, self._key, warmup=WARMUP, draws=count, progress=False)
            self._made[count] = SampledPosterior(*found)
        return self._made[count]
