"""The NumPyro program that a formula stands for, to be read, copied and changed."""

from typing import TYPE_CHECKING

import numpy as np

from stakes.formulas.families import LINKS
from stakes.formulas.priors import number

if TYPE_CHECKING:
    from stakes.formulas.model import FormulaModel


def source_of(model: "FormulaModel") -> str:
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
    group = model.design.groups[at]
    argument = model.names.groups[group.factor]
    sigma = {site.name: site for site in model.sites}[f"{group.name}_sigma"]
    many = "" if sigma.size is None else f".expand([{sigma.size}]).to_event(1)"
    own = f"group_{at}[{argument}]"
    if not group.name.startswith("1|"):
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
    return [
        f'unit = numpyro.sample("cutpoints_decentered", '
        f"dist.Normal(0, 1).expand([{len(around)}]).to_event(1))",
        f"gaps = jnp.exp({number(np.log(np.diff(around)))} + 0.75 * unit[1:])",
        f"first = {number(around[0])} + 1.5 * unit[0]",
        'cutpoints = numpyro.deterministic("cutpoints", '
        "jnp.concatenate([first[None], first + jnp.cumsum(gaps)]))",
    ]
