"""What the model predicts for cases of its fit, or for others."""

import functools
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import jax
from numpyro import handlers

from stakes._types import Array, Batch, Distribution, Key
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.cases import Cases
from stakes.bridge.checks import check_outcome_shape, check_same_batches, model_sites
from stakes.bridge.sites import (
    Site,
    Sites,
    instances_of,
    plate_sizes,
    prediction_of,
    shapes_of,
    split_data,
    subsamples_of,
    trace_of,
)
from stakes.errors import InputError, some
from stakes.problem import Problem


@final
@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["cases"])
@dataclass(frozen=True)
class Predictor:
    """The model on the cases to decide about, with their data."""

    arrays: dict[str, Array]
    cases: Cases

    def predict(
        self, latents: Mapping[str, Array], key: Key, batch: Batch
    ) -> tuple[Distribution, Array]:
        """p(y|θ) for the cases in the batch, and how much each counts.

        Latents of new cases come from the model.
        """
        return prediction_of(self._outcome_site(latents, key, batch))

    def observed(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Array | None:
        """The outcomes that were observed for the cases in the batch, if any were."""
        site = self._outcome_site(latents, key, batch)
        return site["value"] if site["is_observed"] else None

    def _outcome_site(self, latents: Mapping[str, Array], key: Key, batch: Batch) -> Site:
        names = (*self.cases.latents, *self.cases.learned)
        known = {name: latents[name] for name in names}
        data = {**self.cases.constants, **self.arrays}
        with handlers.substitute(data={**known, **batch}):
            return trace_of(self.cases.model, data, key)[self.cases.outcome]


@final
class Predictors:
    """Predictors of one fit, traced once for each shape that other cases come in."""

    def __init__(self, problem: Problem, approximation: NumPyroApproximation) -> None:
        self._problem, self._approximation = problem, approximation
        self._traced: dict[Hashable, Cases] = {}

    def on(self, data: dict[str, Any] | None = None, *, new: Iterable[str] = ()) -> Predictor:
        """The model on the data of the fit, or on other cases.

        A plate whose size differs from the fit's holds new members, as do those named in `new`;
        their latents are drawn from the model, given all latents known from the fit. Other plates
        hold the members that the fit has seen.
        """
        if data is None:
            return Predictor(self._approximation.arrays, self._approximation.cases)
        arrays, constants = split_data(data)
        shapes = _shapes(arrays, constants, new)
        if shapes is None:
            return Predictor(arrays, _cases(self._problem, self._approximation, data, new))
        if shapes not in self._traced:
            self._traced[shapes] = _cases(self._problem, self._approximation, data, new)
        return Predictor(arrays, self._traced[shapes])


def _shapes(
    arrays: Mapping[str, Array], constants: Mapping[str, Any], new: Iterable[str]
) -> Hashable | None:
    """All that a model's structure may depend on: it cannot read the values of arrays.

    None where a constant is not hashable. 1 and True are told apart.
    """
    shapes = frozenset((name, value.shape, value.dtype) for name, value in arrays.items())
    try:
        return shapes, frozenset((n, type(v), v) for n, v in constants.items()), frozenset(new)
    except TypeError:  # a list, say
        return None


def _cases(
    problem: Problem, approximation: NumPyroApproximation, data: dict[str, Any], new: Iterable[str]
) -> Cases:
    key, fitted = jax.random.key(0), approximation.cases
    sites = model_sites(problem, data, key)
    site = sites[problem.outcome]
    if site["is_observed"]:
        check_outcome_shape(problem.outcome, site)
    fresh = _new_plates(sites, shapes_of(fitted.model, approximation.data, key), new)
    subsamples = subsamples_of(sites)
    cases = Cases(
        model=problem.model,
        outcome=problem.outcome,
        constants=split_data(data)[1],
        instances=instances_of(problem.outcome, site, subsamples),
        subsamples=subsamples,
        latents={
            name: latent
            for name, latent in fitted.latents.items()
            if name in sites and not fresh.intersection(latent.dims)
        },
        learned=fitted.learned,
    )
    check_same_batches(fitted.subsamples, subsamples, cases.known_plates)
    for name, latent in cases.latents.items():
        here = instances_of(name, sites[name], subsamples).shape
        if here != latent.shape:
            raise InputError(
                f"The latent {name!r} has shape {latent.shape} in the fit and {here} here, "
                f"but no plate explains the difference. Sample it inside a `numpyro.plate`."
            )
    return cases


def _new_plates(sites: Sites, fit_sites: Sites, new: Iterable[str]) -> set[str]:
    """Plates whose size differs from the fit's, and those named in `new`."""
    here, before = plate_sizes(sites), plate_sizes(fit_sites)
    unknown = [name for name in new if name not in here]
    if unknown:
        raise InputError(f"`new=` names {some(unknown)}; the model's plates are {some(here)}.")
    return {name for name, size in here.items() if before.get(name) != size} | set(new)
