"""Who the members of other data are: the fit's or new ones.

What a fit has learned about a member, such as one store, is used for that member; latents of a new
member are drawn from the model. Labels tell which is which, if fit and data have both; otherwise
the user does, by `new=` and `known=`; otherwise a plate of the same size is taken to hold the same
members, and a warning says so.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from stakes import checks
from stakes.bridge import ModelTrace, NumPyroApproximation, Predictor, Predictors
from stakes.errors import InputError, some, warn
from stakes.port import Instances
from stakes.study.data import CheckedData, Coords


class Membership(NamedTuple):
    """What the user has said about the members of plates.

    Attributes:
        new: plates of new members.
        known: plates of the fit's members.
        rows: plate -> for each of its members the number that it has in the fit, -1 for a new one.
        same: plates that are labelled just as in the fit.
        alike: plates of which no label is the fit's, though some look like it.
    """

    new: tuple[str, ...]
    known: tuple[str, ...]
    rows: dict[str, np.ndarray]
    same: tuple[str, ...]
    alike: tuple[str, ...]


def predictor_for(
    predictors: Predictors,
    approximation: NumPyroApproximation,
    labels: Coords,
    read: CheckedData,
    new: str | Sequence[str],
    known: str | Sequence[str],
    coords: Coords | None,
) -> tuple[Predictor, Coords]:
    """Return the model on other cases, and the labels of their members.

    Args:
        predictors: of the fit.
        approximation: model and guide on the data of the fit.
        labels: of the fit's members, by plate.
        read: the other data.
        new: plates of which all members are new.
        known: plates whose members are those of the fit.
        coords: labels that the user gives for these cases.
    """
    fresh, kept = checks.names("`new=`", new), checks.names("`known=`", known)
    if coords is not None:
        coords = checks.labels("`coords=`", coords)
    fitted = approximation.trace
    coords = read.coords(fitted, coords) or {}
    members = compare_labels(fitted, labels, coords, fresh, kept)
    predictor = predictors.on(read.data, new=members.new, rows=members.rows)
    changed = _is_changed(approximation, predictor)
    _check(members, coords, fitted, predictor.trace)
    _warn(members, fitted, predictor.trace, changed=changed)
    ours = _members_of_fit(members, fitted, predictor.trace, changed=changed)
    # Costs by place are those of the fit where cases are its own, in the same order.
    same = {d for d, own in coords.items() if d in labels and list(own) == list(labels[d])}
    if not set(predictor.instances.dims) <= ours | same | members.rows.keys():
        predictor = replace(predictor, are_others=True)
    return predictor, {dim: own for dim, own in labels.items() if dim in ours} | dict(coords)


def compare_labels(
    fitted: ModelTrace,
    labels: Coords,
    coords: Coords,
    fresh: tuple[str, ...],
    kept: tuple[str, ...],
) -> Membership:
    """Compare the labels of other data with those of the fit, where both have any.

    Args:
        fitted: the model on the data of the fit.
        labels: of its members, by plate.
        coords: labels of the other data.
        fresh: plates that the user calls new.
        kept: plates that the user calls known.
    """
    both = [name for name in fresh if name in kept]
    if both:
        raise InputError(f"{some(both)} is in `new=` and in `known=`; a plate can only be one.")
    rows: dict[str, np.ndarray] = {}
    same = []
    for dim, given in coords.items():
        if dim not in labels or dim not in fitted.known_plates or dim in fresh:
            continue
        before, here = list(labels[dim]), list(given)
        if here == before:
            same.append(dim)
        elif dim not in kept or (_are_unique(before) and _are_unique(here)):
            rows[dim] = _numbers(dim, before, here, all_known=dim in kept)
    all_new = tuple(d for d, at in rows.items() if (at < 0).all() and d in fitted.plates)
    some_known = {dim: at for dim, at in rows.items() if dim not in all_new}
    alike = tuple(d for d in all_new if _are_alike(labels[d], coords[d]))
    return Membership((*fresh, *all_new), kept, some_known, tuple(same), alike)


def _are_alike(before: Iterable[Any], here: Iterable[Any]) -> bool:
    """Return whether labels differ in their type alone: 1 and "1"."""
    return not {str(label) for label in before}.isdisjoint(str(label) for label in here)


def _is_changed(fitted: NumPyroApproximation, predictor: Predictor) -> bool:
    """Return whether anything but the outcomes differs from the data of the fit."""
    before, here = fitted.data, {**predictor.trace.constants, **predictor.arrays}
    return any(
        name != fitted.trace.observed
        and not (name in before and np.array_equal(value, before[name]))
        for name, value in here.items()
    )


def _check(members: Membership, coords: Coords, fitted: ModelTrace, here: ModelTrace) -> None:
    """Refuse labels and plates that do not fit the model or the data of the fit."""
    check_coords(coords, *_every_axis(here))
    unknown = [name for name in members.known if name not in here.plates]
    if unknown:
        raise InputError(
            f"`known=` names {some(unknown)}; the model's plates are {some(here.plates)}."
        )
    for plate in [p for p in members.known if p not in members.rows]:
        if here.plates[plate] != fitted.plates.get(plate):
            raise InputError(
                f"`known=` names {plate!r}, which has {here.plates[plate]} members here and had "
                f"{fitted.plates.get(plate, 0)} in the fit: only labels can tell which they are. "
                f"Give `coords={{{plate!r}: [...]}}`, here and in `calibrate`."
            )
    strange = [d for d, at in members.rows.items() if d not in here.plates and (at < 0).any()]
    if strange:
        raise InputError(
            f"`coords` has labels of {some(strange)} that the fit does not have, and new members "
            f"can only be drawn for a `numpyro.plate`."
        )


def _warn(members: Membership, fitted: ModelTrace, here: ModelTrace, *, changed: bool) -> None:
    """Warn where only a guess says who the members of a plate are.

    Plates without latents of their own are left out: it makes no difference there.
    """
    for plate in members.alike:
        warn(
            f"The fit knows no label of {plate!r}, so all its members are treated as new; but some "
            f"labels differ from the fit's only in their type, such as '1' and 1. Give labels of "
            f"the fit's type or, if the members are new, say `new=({plate!r},)`."
        )
    settled = {*members.new, *members.known, *members.same, *members.rows}
    unsaid = [p for p in here.plates if p in fitted.known_plates and p not in settled]
    other = [p for p in unsaid if here.plates[p] != fitted.plates[p]]
    if other:
        sizes = ", ".join(f"{here.plates[p]} and {fitted.plates[p]}" for p in other)
        warn(
            f"The plate {some(other)} has another number of members than in the fit ({sizes}): "
            f"all of them are treated as new, and nothing that the fit has learned about single "
            f"members is used. If they are new, say `new={tuple(other)}`; if some are members of "
            f"the fit, identify them by labels, `coords={{{other[0]!r}: [...]}}`, here and in "
            f"`calibrate`."
        )
    alike = [p for p in unsaid if p not in other and p in here.instances.dims]
    if alike and changed:
        warn(
            f"The plate {some(alike)} has as many members as in the fit and is assumed to hold "
            f"the same ones. If they are new, say `new={tuple(alike)}`; if they are the same, "
            f"say `known={tuple(alike)}`.",
        )


def _members_of_fit(
    members: Membership, fitted: ModelTrace, here: ModelTrace, *, changed: bool
) -> frozenset[str]:
    """Return the outcome's plates whose members are the fit's, in the same order."""
    alike = {p for p, size in here.plates.items() if fitted.plates.get(p) == size}
    sure = here.known_plates | set(members.known) | (set() if changed else alike)
    return frozenset((sure & alike) - set(members.new) - members.rows.keys())


def _every_axis(cases: ModelTrace) -> Iterable[Instances]:
    """Return all that can be labelled: plates, and axes of outcomes and latents."""
    plates = Instances(tuple(cases.plates.values()), tuple(cases.plates))
    return (cases.instances, *cases.latents.values(), plates)


def _are_unique(labels: list[Any]) -> bool:
    """Return whether no label comes twice."""
    return len(set(labels)) == len(labels)


def _numbers(dim: str, before: list[Any], here: list[Any], *, all_known: bool) -> np.ndarray:
    """Return the number that each member has in the fit; -1 for a new one.

    Args:
        dim: the plate.
        before: labels in the fit.
        here: labels of the other data.
        all_known: whether the user says that all of them are the fit's.
    """
    for labels, where in ((before, " in the fit"), (here, "")):
        if not _are_unique(labels):
            twice = [label for label, times in Counter(labels).items() if times > 1]
            raise InputError(
                f"`coords[{dim!r}]` has {some(twice)} more than once{where}, so that labels do not "
                f"identify members. Say `new=({dim!r},)` or `known=({dim!r},)` instead."
            )
    number = {label: at for at, label in enumerate(before)}
    strange = [label for label in here if label not in number]
    if strange and all_known:
        raise InputError(
            f"`known=` names {dim!r}, but the fit has no {some(strange)} there. Leave {dim!r} out "
            f"of `known=` to treat such members as new."
        )
    return np.array([number.get(label, -1) for label in here])


def check_coords(coords: Coords | None, *labelled: Instances) -> None:
    """Refuse labels of an unknown plate, or another number of them than it has members."""
    sizes = {d: n for each in labelled for d, n in zip(each.dims, each.shape, strict=True)}
    given = {} if coords is None else checks.labels("`coords=`", coords)
    for name, labels in given.items():
        if name not in sizes:
            raise InputError(f"`coords` labels {name!r}; the plates are {some(sizes)}.")
        if len(labels) != sizes[name]:
            raise InputError(
                f"`coords[{name!r}]` has {len(labels)} labels for {sizes[name]} members."
            )
