"""From a formula and a table to a model: all that is learned, with default priors."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist

from stakes import checks
from stakes.errors import InputError
from stakes.formulas.design import Design, Parts
from stakes.formulas.families import FAMILIES, Family, cutpoints_of, spread, typical
from stakes.formulas.frames import check_outcomes, framed, parts_of_dates, trials_of
from stakes.formulas.grammar import Parsed, parsed
from stakes.formulas.model import FormulaModel
from stakes.formulas.priors import GROUPS, WIDE, Site, replaced
from stakes.host.packages import how_to_install, missing
from stakes.tables import columns_in, is_table


def formula(
    text: str,
    data: Any,
    family: str = "normal",
    *,
    link: str | None = None,
    priors: Mapping[str, Any] | None = None,
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
    there = columns_in(data)
    found = parsed(text, there, parts_of_dates(there))
    _check_family(family, found)
    frame, table = framed(data, found, None, needs_outcome=True)
    outcomes = np.asarray(table.arguments[found.response])
    check_outcomes(family, found.response, outcomes, table.rows)
    trials = None
    if found.trials is not None:
        trials = trials_of(found.trials, table, len(frame))
    design = Design.of(found, frame)
    parts = design.parts(frame, table.rows)
    scale = spread(family, link, outcomes)
    where = typical(family, link, outcomes, trials)
    if parts.offset is not None:
        where -= float(parts.offset.mean())
    with_intercept = design.intercept and family != "ordinal"
    centered = design.intercept or family == "ordinal"
    noise = spread(family, "identity", outcomes)
    sites = _sites(design, parts, FAMILIES[family], where, scale, noise, intercept=with_intercept)
    return FormulaModel(
        text=" ".join(text.split()),
        family=family,
        link=link,
        parsed=found,
        design=design,
        coding=table.coding,
        sites=tuple(replaced(sites, priors)),
        center=parts.common.mean(axis=0) * centered,
        group_centers=_group_centers(design, parts),
        cutpoints=cutpoints_of(outcomes) if family == "ordinal" else None,
    )


class FormulaColumns(NamedTuple):
    """What a formula needs of a table."""

    response: str
    columns: tuple[str, ...]
    """All that it names, the outcomes' column among them."""
    dates: tuple[str, ...]
    """Those of which it asks for a part of the date."""


def formula_columns(text: str, there: Sequence[str]) -> FormulaColumns:
    """The columns that a formula names, of a table that has these."""
    found = parsed(checks.text("`formula(text)`", text), there, parts_of_dates(there))
    trials = (found.trials,) if isinstance(found.trials, str) else ()
    names = dict.fromkeys((*found.names, *found.groups, *trials, found.response))
    whole = {name: name if name in there else name.rpartition("_")[0] for name in names}
    dates = dict.fromkeys(column for name, column in whole.items() if name != column)
    return FormulaColumns(found.response, tuple(dict.fromkeys(whole.values())), tuple(dates))


def _sites(
    design: Design,
    parts: Parts,
    kind: Family,
    where: float,
    scale: float,
    noise: float,
    *,
    intercept: bool,
) -> list[Site]:
    """All that is learned, with default priors."""
    found = []
    if intercept:
        words = "the level where all else is at its mean"
        found.append(Site("intercept", dist.Normal(where, WIDE * scale), None, words))
    for term in design.terms:
        units = _units(term.name, parts.common[:, term.columns], design.intercept)
        size = None if len(units) == 1 else len(units)
        wide = WIDE * scale / (units[0] if size is None else units)
        words = f"of one unit of `{term.name}`" if size is None else f"of each of {size} columns"
        found.append(Site(term.name, dist.Normal(0.0 * wide, wide), size, words))
    for group in design.groups:
        units = _units(group.name, parts.groups[group.name], False)
        size = None if len(units) == 1 else len(units)
        wide = GROUPS * scale / (units[0] if size is None else units)
        words = f"how much `{group.name}` differs between groups"
        found.append(Site(f"{group.name}_sigma", dist.HalfNormal(wide), size, words))
    for name, (make, words) in kind.parameters.items():
        prior = make()
        own = dist.HalfNormal(prior.scale * noise) if name == "sigma" else prior
        found.append(Site(name, own, None, words))
    return found


def _group_centers(design: Design, parts: Parts) -> dict[str, np.ndarray]:
    levels = {group.factor for group in design.groups if group.name.startswith("1|")}
    return {
        group.name: parts.groups[group.name].mean(axis=0) * (group.factor in levels)
        for group in design.groups
    }


def _units(name: str, columns: np.ndarray, varies: bool) -> np.ndarray:
    """How far the values of each column lie apart; half of the difference for two values."""
    spread = columns.std(axis=0)
    if varies and (spread == 0).any():
        raise InputError(
            f"The term `{name}` of the formula has a column with the same value in all rows: "
            f"nothing can be learned from it."
        )
    two = np.array([len(np.unique(column)) == 2 for column in columns.T])
    return np.where(two, np.ptp(columns, axis=0) / 2, np.where(spread > 0, spread, 1.0))


def _check_family(family: str, parsed: Parsed) -> None:
    if (family == "binomial") != (parsed.trials is not None):
        raise InputError(
            f"`formula(family={family!r})`: numbers of trials, as in `p({parsed.response}, shots) "
            f"~ ...`, belong to the family 'binomial', and it needs them."
        )
