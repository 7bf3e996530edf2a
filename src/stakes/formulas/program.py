"""What a model made from a formula stands for: a NumPyro program, and effects in plain words.

The program does what `FormulaModel.__call__` does, line by line, so that it can be read, copied and
changed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stakes._types import Array
from stakes.formulas.families import LINKS
from stakes.formulas.priors import number

if TYPE_CHECKING:
    from stakes.formulas.model import FormulaModel

# How formulae names the column of a category: `town[Bonn]`, `C(day_weekday)[1]`.
LEVEL = re.compile(r"(?:C\((\w+)\)|(\w+))\[([^\]]*)\]")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def source_of(model: "FormulaModel") -> str:
    """The program, with the numbers that the first table gave it.

    Args:
        model: the model, whose arguments are those of the program.

    Returns:
        The text of a Python module with one function, `model`.
    """
    arguments = ", ".join(
        name if parameter.default is parameter.empty else f"{name}=None"
        for name, parameter in model.__signature__.parameters.items()  # type: ignore[attr-defined]
    )
    body = "\n".join(f"    {line}" if line else "" for line in _lines(model))
    return (
        "import jax\nimport jax.numpy as jnp\nimport numpyro\nimport numpyro.distributions as dist"
        f"\n\n\ndef model({arguments}):\n{body}\n"
    )


def _lines(model: "FormulaModel") -> list[str]:
    """The body of the program."""
    names, sites = model.names, {site.name: site for site in model.sites}
    lines = [f"# {model.text}", f"eta = jnp.zeros({names.rows})"]
    if "intercept" in sites:
        lines.append(f"eta = eta + {sites['intercept'].source}")
    for at, term in enumerate(model.design.terms):
        first, last = term.columns.start, term.columns.stop
        mean, effect = model.center[term.columns], f"effect_{at}"
        lines.append(f"{effect} = {sites[term.name].source}")
        if sites[term.name].size is None:
            lines.append(f"eta = eta + ({names.design}[:, {first}] - {number(mean[0])}) * {effect}")
        else:
            columns = f"{names.design}[:, {first}:{last}] - {number(mean)}"
            lines.append(f"eta = eta + ({columns}) @ {effect}")
    if model.design.offsets:
        lines.append(f"eta = eta + {names.offset}")
    for name in names.groups.values():
        lines.append(f"plate_{name} = numpyro.plate({name!r}, {name}_count)")
    for at in range(len(model.design.groups)):
        lines += _grouped(model, at)
    for name in model.kind.parameters:
        lines.append(f"{name} = {sites[name].source}")
    if model.cutpoints is not None:
        lines += _cutpoints(model.cutpoints)
    if model.parsed.trials is not None and names.trials != "trials":
        lines.append(f"trials = {names.trials}")
    return [
        *lines,
        f"mean = {LINKS[model.link].source}",
        f"with numpyro.plate({names.row!r}, {names.rows}):",
        f"    numpyro.sample({model.response!r}, {model.kind.source}, obs={model.response})",
    ]


def _grouped(model: "FormulaModel", at: int) -> list[str]:
    """The lines of a group term: a spread, an offset for each group, and what they add.

    Args:
        at: the place of the term among the group terms, which names its variables.
    """
    group = model.design.groups[at]
    argument = model.names.groups[group.factor]
    sigma = {site.name: site for site in model.sites}[f"{group.name}_sigma"]
    many = "" if sigma.size is None else f".expand([{sigma.size}]).to_event(1)"
    own = f"group_{at}[{argument}]"
    if not group.is_level:
        mean = model.group_centers[group.name]
        columns = f"({model.design_of(at)} - {number(mean)})"
        own = f"{columns}[:, 0] * {own}" if sigma.size is None else f"({columns} * {own}).sum(-1)"
    return [
        f"spread_{at} = {sigma.source}",
        f"with plate_{argument}:",
        f"    offset_{at} = numpyro.sample({f'{group.name}_offset'!r}, dist.Normal(0, 1){many})",
        f"    group_{at} = numpyro.deterministic({group.name!r}, spread_{at} * offset_{at})",
        f"eta = eta + {own}",
    ]


def _cutpoints(around: np.ndarray) -> list[str]:
    """The lines of limits between ordered categories, around those of the data."""
    return [
        f'unit = numpyro.sample("cutpoints_decentered", '
        f"dist.Normal(0, 1).expand([{len(around)}]).to_event(1))",
        f"gaps = jnp.exp({number(np.log(np.diff(around)))} + 0.75 * unit[1:])",
        f"first = {number(around[0])} + 1.5 * unit[0]",
        'cutpoints = numpyro.deterministic("cutpoints", '
        "jnp.concatenate([first[None], first + jnp.cumsum(gaps)]))",
    ]


def effects_of(model: "FormulaModel", draws: Mapping[str, Array]) -> dict[str, np.ndarray]:
    """Draws of the effects that a model's latents stand for.

    Args:
        model: the model.
        draws: latent -> draws, along the first axis.

    Returns:
        Effect -> draws: those of the terms in their own units, and those of each group.
    """
    effects = {}
    for site in model.sites:
        unit = draws.get(site.unit)
        effects[site.name] = np.asarray(draws[site.name] if unit is None else site.scaled(unit))
    for group in model.design.groups:
        spread = np.expand_dims(effects[f"{group.name}_sigma"], 1)
        effects[group.name] = spread * np.asarray(draws[f"{group.name}_offset"])
    if model.cutpoints is not None:
        effects["cutpoints"] = np.asarray(model.cutpoints_from(draws["cutpoints_decentered"]))
    return effects


def title_of(
    model: "FormulaModel", name: str, place: tuple[int, ...], coords: Mapping[str, Sequence[object]]
) -> str:
    """The title of one of the numbers of an effect, such as `town: Bonn`.

    Args:
        model: the model.
        name: of the effect.
        place: of the number, among those that the effect has.
        coords: group -> the labels of its members.
    """
    for group in model.design.groups:
        what = group.factor
        if not group.is_level:
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


def _level(label: re.Match[str]) -> str:
    """The title of a column of a category, with weekdays by name."""
    name, level = label[1] or label[2], label[3]
    if name.endswith("_weekday") and level.isdecimal():
        return f"{name}: {WEEKDAYS[int(level)]}"
    return f"{name}: {level}"


def _numbered(place: tuple[int, ...]) -> str:
    """The place of a number in brackets; nothing for a single number."""
    return f"[{', '.join(map(str, place))}]" if place else ""
