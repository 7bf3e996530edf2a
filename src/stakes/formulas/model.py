"""The NumPyro model that a formula stands for, which takes tables."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes._types import Array
from stakes.formulas.design import Design, GroupTerm
from stakes.formulas.effects import effects_of, title_of
from stakes.formulas.families import FAMILIES, LINKS, Family
from stakes.formulas.frames import check_outcomes, framed, members_of, trials_of
from stakes.formulas.grammar import Parsed
from stakes.formulas.priors import Site
from stakes.formulas.source import source_of
from stakes.tables import Coding, Read


class Names(NamedTuple):
    """What arguments and plates are called; none like the outcome or a term."""

    rows: str
    design: str
    offset: str
    trials: str
    row: str
    """The plate of the rows."""
    groups: Mapping[str, str]
    """Factor -> its argument and plate."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class FormulaModel:
    """A model for `Problem`, made by `formula`. It takes tables with the same columns.

    Call `source()` for the NumPyro program that it stands for, and print it to read its priors.
    """

    text: str
    family: str
    link: str
    parsed: Parsed
    design: Design
    coding: Coding
    """What the numbers in the columns stand for."""
    sites: tuple[Site, ...]
    """All that is learned but for effects of single groups and cutpoints."""
    center: np.ndarray
    """The means of the columns, which are taken off."""
    group_centers: Mapping[str, np.ndarray]
    """The same for group terms whose groups have a level of their own."""
    cutpoints: np.ndarray | None
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        taken = {self.response, "intercept", "cutpoints", *(site.name for site in self.sites)}
        taken |= {group.name for group in self.design.groups}
        factors = dict.fromkeys(group.factor for group in self.design.groups)
        groups = {factor: _free(_identifier(factor), taken) for factor in factors}
        names = Names(
            rows=_free("rows", taken),
            design=_free("design", taken),
            offset=_free("offset", taken),
            trials=_free("trials", taken),
            row=_free("row", taken),
            groups=groups,
        )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "__name__", f"formula({self.text!r})")
        object.__setattr__(self, "__signature__", self._signature())

    def __repr__(self) -> str:
        kind = f"{self.response} is {self.family}"
        if self.family not in ("normal", "student", "ordinal", "lognormal"):
            kind += f", and the {self.link} of its mean a sum of effects"
        lines = [f"{site.name}: {site}" for site in self.sites]
        if self.cutpoints is not None:
            lines.append("cutpoints: around those that give each category its share of the data")
        return "\n  ".join([f"{self.text}: {kind}", *lines])

    @property
    def response(self) -> str:
        return self.parsed.response

    @property
    def priors(self) -> dict[str, Any]:
        """By name, as `formula(priors=...)` takes them."""
        return {site.name: site.prior for site in self.sites}

    def source(self) -> str:
        """The NumPyro program that the formula stands for."""
        return source_of(self)

    def __call__(self, **given: Any) -> None:
        names, by_name = self.names, {site.name: site for site in self.sites}
        eta = jnp.zeros(given[names.rows])
        if "intercept" in by_name:
            eta = eta + by_name["intercept"].drawn()
        for term in self.design.terms:
            columns = given[names.design][:, term.columns] - self.center[term.columns]
            effect = by_name[term.name].drawn()
            eta = eta + (columns @ effect if by_name[term.name].size else columns[:, 0] * effect)
        if self.design.offsets:
            eta = eta + given[names.offset]
        plates = {
            factor: numpyro.plate(name, given[f"{name}_count"])
            for factor, name in names.groups.items()
        }
        for at, group in enumerate(self.design.groups):
            eta = eta + self._grouped(at, group, by_name, plates[group.factor], given)
        further = {name: by_name[name].drawn() for name in self.kind.parameters}
        if self.cutpoints is not None:
            many = dist.Normal(0, 1).expand([len(self.cutpoints)]).to_event(1)
            unit = numpyro.sample("cutpoints_decentered", many)
            further["cutpoints"] = numpyro.deterministic("cutpoints", self.cutpoints_from(unit))
        if self.parsed.trials is not None:
            further["trials"] = given[names.trials]
        outcome = self.kind.make(LINKS[self.link].inverse(eta), **further)
        with numpyro.plate(names.row, given[names.rows]):
            numpyro.sample(self.response, outcome, obs=given.get(self.response))

    def effects(self, draws: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Draws of all latents, along the first axis, as the effects that they stand for."""
        return effects_of(self, draws)

    def title(self, name: str, place: tuple[int, ...], coords: Mapping[str, Sequence[Any]]) -> str:
        """What a number of one of the `effects` is called, such as `town: Bonn`."""
        return title_of(self, name, place, coords)

    def cutpoints_from(self, unit: Array) -> Array:
        """The limits between ordered categories; gaps between them are positive."""
        assert self.cutpoints is not None
        gaps = jnp.exp(np.log(np.diff(self.cutpoints)) + 0.75 * unit[..., 1:])
        first = self.cutpoints[0] + 1.5 * unit[..., :1]
        return jnp.concatenate([first, first + jnp.cumsum(gaps, axis=-1)], axis=-1)

    @property
    def kind(self) -> Family:
        return FAMILIES[self.family]

    def design_of(self, at: int) -> str:
        """The argument with the columns of a group term, for those that are no intercept."""
        return f"{self.names.groups[self.design.groups[at].factor]}_design_{at}"

    def _grouped(
        self, at: int, group: GroupTerm, by_name: Mapping[str, Site], plate: Any, given: Any
    ) -> Array:
        sigma = by_name[f"{group.name}_sigma"]
        spread = sigma.drawn()
        unit = dist.Normal(0, 1)
        with plate:
            many = unit if sigma.size is None else unit.expand([sigma.size]).to_event(1)
            offset = numpyro.sample(f"{group.name}_offset", many)
            effect = numpyro.deterministic(group.name, spread * offset)
        own = effect[given[self.names.groups[group.factor]]]
        if group.name.startswith("1|"):
            return own
        columns = given[self.design_of(at)] - self.group_centers[group.name]
        return columns[:, 0] * own if sigma.size is None else (columns * own).sum(-1)

    def read_table(self, table: Any, *, needs_outcome: bool) -> Read:
        """A table as the arguments of the model, with the levels, knots and means of the first."""
        frame, found = framed(table, self.parsed, self.coding, needs_outcome=needs_outcome)
        parts = self.design.parts(frame, found.rows)
        names = self.names
        arguments: dict[str, Any] = {names.rows: len(frame)}
        if self.design.terms:
            arguments[names.design] = parts.common
        if self.design.offsets:
            arguments[names.offset] = parts.offset
        members: dict[str, tuple[Any, ...]] = {}
        for at, group in enumerate(self.design.groups):
            name = names.groups[group.factor]
            codes, members[name] = members_of(frame, group.columns)
            arguments |= {name: codes, f"{name}_count": len(members[name])}
            if not group.name.startswith("1|"):
                arguments[self.design_of(at)] = parts.groups[group.name]
        if self.parsed.trials is not None:
            arguments[names.trials] = trials_of(self.parsed.trials, found, len(frame))
        if self.response in found.arguments:
            outcomes = found.arguments[self.response]
            check_outcomes(self.family, self.response, outcomes, found.rows)
            arguments[self.response] = outcomes
        return Read(arguments, found.rows, Coding(dict(members)), members)

    def _signature(self) -> inspect.Signature:
        names, kind = self.names, inspect.Parameter.KEYWORD_ONLY
        listed = [names.rows]
        listed += [names.design] if self.design.terms else []
        listed += [names.offset] if self.design.offsets else []
        for name in names.groups.values():
            listed += [name, f"{name}_count"]
        listed += [
            self.design_of(at)
            for at, group in enumerate(self.design.groups)
            if not group.name.startswith("1|")
        ]
        listed += [names.trials] if self.parsed.trials is not None else []
        given = [inspect.Parameter(name, kind) for name in listed]
        return inspect.Signature([*given, inspect.Parameter(self.response, kind, default=None)])


def _free(name: str, taken: set[str]) -> str:
    """A name that is not taken, and now is."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _identifier(factor: str) -> str:
    return factor.replace(":", "_")
