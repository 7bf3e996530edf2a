"""From a formula and a table to a NumPyro model, which takes tables."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks
from stakes._types import Array, Distribution
from stakes.errors import InputError
from stakes.formulas.design import (
    Design,
    GroupTerm,
    check_outcomes,
    framed,
    members_of,
    parts_of_dates,
    trials_of,
)
from stakes.formulas.families import FAMILIES, LINKS, Family, cutpoints_of, spread, typical
from stakes.formulas.grammar import Parsed, parse
from stakes.formulas.priors import Site, default_sites, replaced
from stakes.formulas.program import effects_of, source_of, title_of
from stakes.host.packages import how_to_install, missing
from stakes.tables import Coding, Read, columns_in, is_table


class Names(NamedTuple):
    """What arguments and plates of the model are called; none like the outcome or a term.

    Attributes:
        rows: the number of rows.
        design: row x column of the terms.
        offset: what is added as it is.
        trials: the number of trials.
        row: the plate of the rows.
        groups: factor -> its argument and plate.
    """

    rows: str
    design: str
    offset: str
    trials: str
    row: str
    groups: Mapping[str, str]


@final
@dataclass(frozen=True, eq=False, repr=False)
class FormulaModel:
    """A model for `Problem`, made by `formula`. It takes tables with the same columns.

    Call `source()` for the NumPyro program that it stands for, and print it to read its priors.

    Attributes:
        coding: what the numbers in the columns stand for.
        sites: all that is learned but for effects of single groups and cutpoints.
        center: the means of the columns, which are taken off.
        group_centers: the same for group terms whose groups have a level of their own.
    """

    text: str
    family: str
    link: str
    parsed: Parsed
    design: Design
    coding: Coding
    sites: tuple[Site, ...]
    center: np.ndarray
    group_centers: Mapping[str, np.ndarray]
    cutpoints: np.ndarray | None
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        taken = {self.response, "intercept", "cutpoints", *(site.name for site in self.sites)}
        taken |= {group.name for group in self.design.groups}
        factors = dict.fromkeys(group.factor for group in self.design.groups)
        groups = {factor: _free(factor.replace(":", "_"), taken) for factor in factors}
        names = Names(
            rows=_free("rows", taken),
            design=_free("design", taken),
            offset=_free("offset", taken),
            trials=_free("trials", taken),
            row=_free("row", taken),
            groups=groups,
        )
        checks.assign(self, names=names, __name__=f"formula({self.text!r})")
        checks.assign(self, __signature__=self._signature())

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
        """The column of the outcomes."""
        return self.parsed.response

    @property
    def priors(self) -> dict[str, Distribution]:
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

    def effects(self, draws: Mapping[str, Array]) -> dict[str, np.ndarray]:
        """Draws of all latents, along the first axis, as the effects that they stand for."""
        return effects_of(self, draws)

    def title(
        self, name: str, place: tuple[int, ...], coords: Mapping[str, Sequence[object]]
    ) -> str:
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
        """The family of the outcomes."""
        return FAMILIES[self.family]

    def design_of(self, at: int) -> str:
        """The argument with the columns of a group term, for those that are no intercept."""
        return f"{self.names.groups[self.design.groups[at].factor]}_design_{at}"

    def _grouped(
        self, at: int, group: GroupTerm, by_name: Mapping[str, Site], plate: Any, given: Any
    ) -> Array:
        """What a group term adds to the sum of effects."""
        sigma = by_name[f"{group.name}_sigma"]
        spread = sigma.drawn()
        unit = dist.Normal(0, 1)
        with plate:
            many = unit if sigma.size is None else unit.expand([sigma.size]).to_event(1)
            offset = numpyro.sample(f"{group.name}_offset", many)
            effect = numpyro.deterministic(group.name, spread * offset)
        own = effect[given[self.names.groups[group.factor]]]
        if group.is_level:
            return own
        columns = given[self.design_of(at)] - self.group_centers[group.name]
        return columns[:, 0] * own if sigma.size is None else (columns * own).sum(-1)

    def read_table(self, table: object, *, needs_outcome: bool) -> Read:
        """A table as the arguments of the model, with the levels, knots and means of the first."""
        frame, data = framed(table, self.parsed, self.coding, needs_outcome=needs_outcome)
        parts = self.design.parts(frame, data.rows)
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
            if not group.is_level:
                arguments[self.design_of(at)] = parts.groups[group.name]
        if self.parsed.trials is not None:
            arguments[names.trials] = trials_of(self.parsed.trials, data, len(frame))
        if self.response in data.arguments:
            outcomes = data.arguments[self.response]
            check_outcomes(self.family, self.response, outcomes, data.rows)
            arguments[self.response] = outcomes
        return Read(arguments, data.rows, Coding(dict(members)), members)

    def _signature(self) -> inspect.Signature:
        """The arguments of the model by name, which tables are read as."""
        names, kind = self.names, inspect.Parameter.KEYWORD_ONLY
        listed = [names.rows]
        listed += [names.design] if self.design.terms else []
        listed += [names.offset] if self.design.offsets else []
        for name in names.groups.values():
            listed += [name, f"{name}_count"]
        listed += [
            self.design_of(at) for at, group in enumerate(self.design.groups) if not group.is_level
        ]
        listed += [names.trials] if self.parsed.trials is not None else []
        given = [inspect.Parameter(name, kind) for name in listed]
        return inspect.Signature([*given, inspect.Parameter(self.response, kind, default=None)])


def formula(
    text: str,
    data: object,
    family: str = "normal",
    *,
    link: str | None = None,
    priors: Mapping[str, Distribution] | None = None,
) -> FormulaModel:
    """A model from a formula, for the columns of a table.

    Terms are added with `+`; `a:b` is an interaction and `a * b` is `a + b + a:b`; `0 +` leaves out
    the intercept; `poly(x, 2)`, `bs(x, df=5)`, `cr(x, df=5)` and `cc(x, period=7)` are smooth;
    `log`, `exp`, `sqrt`, `abs`, `log1p`, `center`, `scale`, `I(x / y)` and `C(x)` make
    columns of columns; `offset(log(x))` is added as it is. `(1 | store)` gives each store a level
    of its own, `(x | store)` a slope as well, learned together, so that new stores can be
    decided about, too. Of a column of dates, `day_weekday` is the weekday, and so on as in
    `calibrate`. The text is not run as a program.

    The intercept is the level where all columns are at their mean.

    Args:
        text: such as `"sold ~ weekday + sunshine + (1 | store)"`; for shares of a number of trials,
            `"p(hits, shots) ~ ..."`.
        data: the table. Categories, knots and scales are those of this one; the data of fits and
            decisions are then tables with the same columns.
        family: one of normal, student, lognormal, poisson, negative binomial, zero-inflated
            poisson, zero-inflated negative binomial, bernoulli, binomial, gamma, beta, ordinal.
        link: the mean's, where not the usual one: identity, log, logit, probit or cloglog.
        priors: by name, in place of the default ones, which printing the model shows.

    Examples:
        >>> import pandas as pd, stakes
        >>> stores = ["a", "a", "b", "b"]
        >>> frame = pd.DataFrame({"sold": [3.0, 5, 4, 6], "sun": [0.0, 1, 0, 1], "store": stores})
        >>> model = stakes.formula("sold ~ sun + (1 | store)", frame)
        >>> print(model)
        sold ~ sun + (1 | store): sold is normal
          intercept: dist.Normal(loc=4.5, scale=2.8): the level where all else is at its mean
          sun: dist.Normal(loc=0, scale=5.59): of one unit of `sun`
          1|store_sigma: dist.HalfNormal(scale=2.24): how much `1|store` differs between groups
          sigma: dist.HalfNormal(scale=2.24): the standard deviation of single outcomes
        >>> stakes.Problem(model, outcome="sold", loss=stakes.Tilted(0.8)).outcome
        'sold'
    """
    text = checks.text("`formula(text)`", text)
    if not is_table(data):
        raise checks.refused("`formula(data)`", "a table, such as a DataFrame of pandas", data)
    family = checks.one_of("`formula(family=...)`", family, list(FAMILIES))
    links = FAMILIES[family].links
    link = links[0] if link is None else checks.one_of("`formula(link=...)`", link, links)
    if missing("formulae"):
        raise InputError(f"`formula(...)` needs formulae: {how_to_install('formula')}.")
    columns = columns_in(data)
    parsed = parse(text, columns, parts_of_dates(columns))
    if (family == "binomial") != (parsed.trials is not None):
        raise InputError(
            f"`formula(family={family!r})`: numbers of trials, as in `p({parsed.response}, shots) "
            f"~ ...`, belong to the family 'binomial', and it needs them."
        )
    frame, table = framed(data, parsed, None, needs_outcome=True)
    outcomes = np.asarray(table.arguments[parsed.response])
    check_outcomes(family, parsed.response, outcomes, table.rows)
    trials = None
    if parsed.trials is not None:
        trials = trials_of(parsed.trials, table, len(frame))
    design = Design.of(parsed, frame)
    parts = design.parts(frame, table.rows)
    level = typical(family, link, outcomes, trials)
    if parts.offset is not None:
        level -= float(parts.offset.mean())
    sites = default_sites(
        design,
        parts,
        FAMILIES[family].parameters,
        level if design.intercept and family != "ordinal" else None,
        spread(family, link, outcomes),
        spread(family, "identity", outcomes),
    )
    levels = {group.factor for group in design.groups if group.is_level}
    return FormulaModel(
        text=" ".join(text.split()),
        family=family,
        link=link,
        parsed=parsed,
        design=design,
        coding=table.coding,
        sites=tuple(replaced(sites, priors)),
        center=parts.common.mean(axis=0) * (design.intercept or family == "ordinal"),
        group_centers={
            group.name: parts.groups[group.name].mean(axis=0) * (group.factor in levels)
            for group in design.groups
        },
        cutpoints=cutpoints_of(outcomes) if family == "ordinal" else None,
    )


class FormulaColumns(NamedTuple):
    """What a formula needs of a table.

    Attributes:
        response: the column of the outcomes.
        columns: all columns that it names, that of the outcomes among them.
        dates: those of which it asks for a part of the date.
        groups: those that only name groups, of which there may be new ones.
    """

    response: str
    columns: tuple[str, ...]
    dates: tuple[str, ...]
    groups: tuple[str, ...]


def formula_columns(text: str, columns: Sequence[str]) -> FormulaColumns:
    """The columns that a formula names.

    Args:
        text: the formula.
        columns: those of the table.
    """
    parsed = parse(checks.text("`formula(text)`", text), columns, parts_of_dates(columns))
    trials = (parsed.trials,) if isinstance(parsed.trials, str) else ()
    names = dict.fromkeys((*parsed.names, *parsed.groups, *trials, parsed.response))
    whole = {name: name if name in columns else name.rpartition("_")[0] for name in names}
    dates = dict.fromkeys(column for name, column in whole.items() if name != column)
    groups = tuple(whole[name] for name in parsed.groups if name not in parsed.names)
    return FormulaColumns(
        parsed.response, tuple(dict.fromkeys(whole.values())), tuple(dates), groups
    )


def _free(name: str, taken: set[str]) -> str:
    """A name that is not taken, and now is."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
