"""The cases that a result is asked about: those of its fit, or other data of the same kind."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from stakes import checks
from stakes._types import Data
from stakes.errors import InputError
from stakes.fitting import Fit
from stakes.predicting import FittedPosterior
from stakes.study.assessment import Assessment
from stakes.study.data import CheckedData, Coords, given
from stakes.study.dependence import By, dependence_of
from stakes.study.members import predictor_for
from stakes.tables import is_table

if TYPE_CHECKING:
    from stakes.study.result import Calibration


def cases_of(
    result: "Calibration",
    data: Data | None,
    new: str | Sequence[str],
    known: str | Sequence[str],
    coords: Coords | None,
    *,
    needs_outcome: bool = False,
) -> Assessment:
    """The result, assessed on these data; on those of the fit where there are none."""
    if data is not None:
        read = given_to(result, data, needs_outcome=needs_outcome and is_table(data))
        return assessment_of(result, read, new, known, coords, None)
    said = (*checks.names("`new=`", new), *checks.names("`known=`", known))
    if said or (coords is not None and checks.labels("`coords=`", coords)):
        raise InputError(
            "`new=`, `known=` and `coords=` say who the members of other data are; without "
            "data they have no meaning."
        )
    return result.on_fit


def given_to(result: "Calibration", data: Data, *, needs_outcome: bool) -> CheckedData:
    """Other data, with the same numbers for the same things as in the fit."""
    return given(
        result.problem,
        data,
        needs_outcome=needs_outcome,
        columns=result.columns,
        fitted=result.table,
        cases=result.approximation.trace,
    )


def assessment_of(
    result: "Calibration",
    read: CheckedData | None,
    new: str | Sequence[str],
    known: str | Sequence[str],
    coords: Coords | None,
    by: By,
) -> Assessment:
    """The result, assessed on what was read; on the data of the fit where nothing was."""
    predictor, labels = result.predictors.on(), result.coords
    if read is not None:
        if result.beyond is not None:
            # Rows of a stream have numbers and no labels: none is known again.
            new = tuple(dict.fromkeys((*checks.names("`new=`", new), result.beyond.part.plate)))
        predictor, labels = predictor_for(
            result.predictors, result.approximation, result.coords, read, new, known, coords
        )
    if by is not None:
        dependence_of(by, predictor)  # says what does not fit
    return Assessment(
        problem=result.problem,
        posteriors={name: posterior_of(result, fit) for name, fit in result.fits.items()},
        predictor=predictor,
        expectation=result.expectation,
        keys=result.keys,
        coords=labels,
        setting=setting_of(result),
        unconverged=tuple(
            f"{name}: {fit.reason} after {fit.steps:,} steps."
            for name, fit in result.fits.items()
            if not fit.converged
        ),
        held_out=read is not None,
        by=by,
    )


def setting_of(result: "Calibration") -> str:
    """How it was calibrated."""
    transform = "utility as given"
    if result.transform is not None:
        transform = f"{type(result.transform).__name__}, M = {result.scale:.4g}"
    rows = "" if result.beyond is None else f"; {result.beyond}"
    return f"{transform}; expectation {result.expectation}{rows}"


def posterior_of(result: "Calibration", fit: Fit | None) -> FittedPosterior:
    """That of a fit; of the calibrated one where none is given."""
    rule = "a fit of this model, such as `result.vi` or `result.calibrated`"
    chosen = checks.instance("`fit=`", result.calibrated if fit is None else fit, Fit, rule)
    if _shapes(chosen) != _shapes(result.calibrated):
        raise checks.refused("`fit=`", rule, fit)
    return FittedPosterior(result.approximation, chosen.params)


def _shapes(fit: Fit) -> Any:
    return jax.tree.map(np.shape, fit.params)
