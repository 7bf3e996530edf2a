"""Draws as ArviZ reads them: labelled arrays, in groups of one tree.

The groups and their names are those of ArviZ's schema, "InferenceData". All draws are independent,
and so make up one chain.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes import predicting
from stakes.bridge import prior_draws as drawn_from_prior
from stakes.fitting import Fit
from stakes.port import Instances
from stakes.predicting import FittedPosterior
from stakes.study.cases import Cases, with_labels

if TYPE_CHECKING:
    import xarray as xr

    from stakes.study.calibration import Calibration


def posterior_draws(result: "Calibration", fit: Fit | None, draws: int) -> "xr.Dataset":
    """Return draws of latents and deterministic sites, for `Calibration.posterior`."""
    posterior, cases = result.posterior_of(fit), result.approximation.trace
    key = result.keys.posterior
    found = predicting.latent_draws(posterior, key, draws)
    found |= predicting.derived_draws(posterior, result.plan.predictors.on(), key, draws)
    return _drawn(result, found, {**cases.latents, **cases.derived})


def prior_draws(result: "Calibration", draws: int) -> "xr.Dataset":
    """Return draws of the latents before any outcome was seen, for `Calibration.prior`."""
    found = drawn_from_prior(result.approximation, result.keys.prior, draws)
    return _drawn(result, found, result.approximation.latents)


def _drawn(
    result: "Calibration", found: Mapping[str, Any], axes: Mapping[str, Instances]
) -> "xr.Dataset":
    """Return draws of some sites as one chain.

    Args:
        result: whose labels the draws get.
        found: draws of each site, along a leading axis.
        axes: of each site.
    """
    import xarray as xr

    return xr.Dataset(
        {
            name: with_labels(values[None], axes[name], result.plan.coords, name, ("chain", "draw"))
            for name, values in found.items()
        }
    )


def data_tree(
    cases: Cases,
    fits: Mapping[str, FittedPosterior],
    posteriors: "Mapping[str, xr.Dataset]",
    *,
    draws: int,
    words: Mapping[str, tuple[object, ...]],
) -> "xr.DataTree":
    """Return the groups of each fit, their names after a prefix, and those of the data.

    Args:
        cases: the data of the fit.
        fits: prefix of the names -> posterior.
        posteriors: draws of each fit's latents, by the same prefix.
        draws: of each fit.
        words: the words of arguments that stand for categories.
    """
    import xarray as xr

    groups: dict[str, Any] = {}
    for prefix, fit in fits.items():
        likelihood, outcome = _explained(cases, fit, draws)
        groups[f"{prefix}posterior"] = posteriors[prefix]
        groups[f"{prefix}posterior_predictive"] = outcome
        groups[f"{prefix}log_likelihood"] = likelihood
    observed = cases.observed
    assert observed is not None  # of a fit, there are some
    groups["observed_data"] = xr.Dataset({cases.problem.outcome: observed})
    groups["constant_data"] = _constants(cases, words)
    return xr.DataTree.from_dict(groups)


def _explained(cases: Cases, fit: FittedPosterior, draws: int) -> "tuple[xr.Dataset, xr.Dataset]":
    """Return the log likelihood of each outcome that counts, and outcomes drawn.

    Outcomes that a mask hides have no likelihood, so that, where there are some, the others are
    listed one after the other.
    """
    import xarray as xr

    name, leading = cases.problem.outcome, ("chain", "draw")
    key = cases.keys.posterior
    log_p, drawn = predicting.explained(fit, cases.predictor, key, draws)
    seen = cases.observations
    assert seen is not None
    instances, coords = cases.instances, cases.coords
    if not seen.counted.all():
        log_p = log_p[:, seen.counted]
        instances, coords = Instances(log_p.shape[1:], ("counted",)), {}
    likelihood = with_labels(log_p[None], instances, coords, name, leading)
    outcome = with_labels(drawn[None], cases.instances, cases.coords, name, leading)
    return xr.Dataset({name: likelihood}), xr.Dataset({name: outcome})


def _constants(cases: Cases, words: Mapping[str, tuple[Any, ...]]) -> "xr.Dataset":
    """Return all that the model was given but the outcomes, codes as words."""
    import xarray as xr

    data = {**cases.predictor.trace.constants, **cases.predictor.arrays}
    found = {}
    for name, value in data.items():
        if name == cases.problem.observations or value is None:
            continue
        array = np.asarray(value)
        if name in words:
            array = np.array(words[name])[array]
        found[name] = with_labels(array, _axes(name, array, cases.instances), cases.coords, name)
    return xr.Dataset(found)


def _axes(name: str, array: np.ndarray, instances: Instances) -> Instances:
    """Return an array's axes: the outcome's, as far as it has a row for each case, and its own."""
    own = [f"{name}_dim_{axis}" for axis in range(array.ndim)]
    count = len(instances.shape)
    if array.shape[:count] == instances.shape and name not in instances.dims:
        own[:count] = instances.dims
    return Instances(array.shape, tuple(own))
