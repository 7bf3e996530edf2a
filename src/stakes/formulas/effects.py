"""What is learned about a formula's terms, in the units and words of its table."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stakes.formulas.model import FormulaModel

LEVEL = re.compile(r"(?:C\((\w+)\)|(\w+))\[([^\]]*)\]")
"""How formulae names the column of a category: `town[Bonn]`, `C(day_weekday)[1]`."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def effects_of(model: "FormulaModel", draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Draws of all latents, along the first axis, as draws of the effects that they stand for."""
    found = {}
    for site in model.sites:
        unit = draws.get(site.unit)
        found[site.name] = np.asarray(draws[site.name] if unit is None else site.scaled(unit))
    for group in model.design.groups:
        spread = np.expand_dims(found[f"{group.name}_sigma"], 1)
        found[group.name] = spread * np.asarray(draws[f"{group.name}_offset"])
    if model.cutpoints is not None:
        found["cutpoints"] = np.asarray(model.cutpoints_from(draws["cutpoints_decentered"]))
    return found


def title_of(
    model: "FormulaModel", name: str, place: tuple[int, ...], coords: Mapping[str, Sequence[Any]]
) -> str:
    """What one of the numbers of an effect is called, such as `town: Bonn`.

    Args:
        place: of the number, among those that the effect has.
        coords: group -> the labels of its members.
    """
    for group in model.design.groups:
        what = group.factor
        if not group.name.startswith("1|"):
            what = f"{group.name.partition('|')[0]} by {group.factor}"
        if name == group.name:
            labels = coords.get(model.names.groups[group.factor])
            label = place[0] if labels is None else labels[place[0]]
            return f"{what}: {label}{_numbered(place[1:])}"
        if name == f"{group.name}_sigma":
            return f"{what}: spread between groups{_numbered(place)}"
    for term in model.design.terms:
        if name == term.name:
            return LEVEL.sub(_level, term.labels[place[0] if place else 0])
    return f"{name}{_numbered(place)}"


def _level(found: re.Match[str]) -> str:
    name, level = found[1] or found[2], found[3]
    if name.endswith("_weekday") and level.isdecimal():
        return f"{name}: {WEEKDAYS[int(level)]}"
    return f"{name}: {level}"


def _numbered(place: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, place))}]" if place else ""
