"""Specs as TOML: read from a file, changed by `--set`, and written for a table of the user."""

import copy
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stakes.app.spec.proposing import Proposal
from stakes.errors import InputError

DECIMAL_COMMA = re.compile(r"^[^#\n=]+=\s*(\d+),(\d+)\s*(?:#|$)", re.MULTILINE)
HEAD = """\
# What to fit and decide, proposed for {name}. `stakes check` validates it, `stakes run` runs it.
# Change what you know better; paths are relative to this file.

"""
COSTS = """\
[loss]                            # what a wrong decision costs: FILL IN, in your own unit
newsvendor = { under = 1, over = 1 }  # one unit too few, one too many; or squared, lin_ex, ...
# unit = "€"                      # of costs, for the report
"""
# Names of columns, in some languages, of what was sold.
SALES = re.compile(
    r"sold|sales|sale_|verkauf|verkäuf|abverkauf|absatz|abgesetzt|vente|vendu|venta|vendid", re.I
)
NOT_DEMAND = """\
# Sold is not demand: where a shelf was empty, more would have been sold, and orders that follow
# such days stay too low. Leave out the rows of days that sold out, or put in what was asked for.
"""
REPLACED = """
[data.replace]                    # words, and what is meant; "" is no value
"""
TODAY = """\
# today = "COLUMN"                # today's decisions, to compare with; not in the formula
"""
ACTIONS = """\
[loss]                            # what a wrong decision costs: FILL IN, in your own unit
[loss.cost_table.costs]           # actions, and what each costs if the outcome is 0 and if it is 1
yes = [1, 0]
no = [0, 1]
"""


def read_toml(path: Path) -> dict[str, object]:
    """Read a spec file; what is no TOML is refused with its place."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}. `stakes init` writes a spec to start from."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        comma = DECIMAL_COMMA.search(text)
        hint = f" Write {comma[1]}.{comma[2]}, with a point." if comma else ""
        raise InputError(f"{path} is not TOML: {error}.{hint}") from None


def without_choice(raw: Mapping[str, object]) -> dict[str, object]:
    """The same spec without a choice among strategies: for the two fits alone."""
    choose = raw.get("choose", {})
    return {**raw, "choose": {**choose, "skip": True} if isinstance(choose, Mapping) else choose}


def with_values(raw: Mapping[str, object], changes: Sequence[str]) -> dict[str, object]:
    """The content of a spec with other values in it.

    Args:
        raw: as it was written.
        changes: such as `loss.newsvendor.under=4`: the path of a field, and its value as TOML has
            it; what is no TOML is taken as a string.

    Examples:
        >>> with_values({"loss": {"tilted": {"q": 0.5}}}, ["loss.tilted.q=0.8", "title=Loaves"])
        {'loss': {'tilted': {'q': 0.8}}, 'title': 'Loaves'}
        >>> with_values({}, ['data.replace.price."n/a"=""'])
        {'data': {'replace': {'price': {'n/a': ''}}}}
    """
    changed: dict[str, Any] = copy.deepcopy(dict(raw))
    for change in changes:
        _, sign, text = change.partition("=")
        names = path_of(change)
        if not sign or not all(names):
            raise InputError(
                f"`--set {change}` must be a field and its value, such as `fit.steps=9000`."
            )
        section = changed
        for name in names[:-1]:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise InputError(f"`--set {change}`: {name!r} has no fields.")
        section[names[-1]] = _value(text.strip())
    return changed


def path_of(change: str) -> list[str]:
    """The names on the way to the field that is changed, which TOML may have in quotes.

    Examples:
        >>> path_of('data.replace.price."n/a"=""')
        ['data', 'replace', 'price', 'n/a']
    """
    path = change.partition("=")[0]
    try:
        value: object = tomllib.loads(f"{path} = 0")
    except tomllib.TOMLDecodeError:
        return [name.strip() for name in path.split(".")]
    names = []
    while isinstance(value, dict):
        [(name, value)] = value.items()
        names.append(name)
    return names


def _value(text: str) -> object:
    """A value as TOML has it; what is no TOML is taken as a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def spec_text(proposal: Proposal, folder: Path) -> str:
    """The text of the spec that is proposed for a table, with a comment on each choice.

    Args:
        proposal: what was found out about the table.
        folder: where the spec will be written, for the path of the table.
    """
    table, (family, why), dated = proposal.file.path, proposal.family, proposal.date is not None
    hints = proposal.hinted
    codes = [name for name, hint in hints.items() if hint.kind is not None]
    dates = {name: hint.date_format for name, hint in hints.items() if hint.date_format}
    replaced = {name: hint.replace for name, hint in hints.items() if hint.replace}
    fifth = f"{'the last' if dated else 'a'} fifth judges fits that have not seen it"
    folds = {"forward": {"blocks": 5}} if dated else None
    ways = ["plain", "corrected", "same"] if family == "negative binomial" else None
    gaps = "rows that lack a value are left out, and get no decision"
    text = [
        HEAD.format(name=table.name),
        _line("title", f"Decisions about {proposal.about}"),
        _line("seed", 0, "the same seed gives the same numbers"),
        "\n[model]\n",
        NOT_DEMAND if SALES.search(proposal.about) else "",
        _line("formula", proposal.formula),
        _line("family", family, why),
        *(f"# left out: {name}, {reason}\n" for name, reason in proposal.left_out.items()),
        "\n[data]\n",
        _line("file", os.path.relpath(table, folder), proposal.file.written),
        _line("label", [*proposal.label], "names the rows in decisions and report"),
        _line("columns", proposal.renamed, "what the formula calls these columns"),
        _line("ordered", proposal.date, "rows are put in order by it"),
        _line("missing", proposal.missing, gaps),
        _line("categories", codes, "codes, though they look like numbers"),
        _line("dates", dates, "CHECK: day and month could be the other way round"),
        _line("held_out", proposal.held_out, f"{fifth}; then all rows are fitted"),
        REPLACED if replaced else "",
        *(_line(_key(name), change) for name, change in replaced.items()),
        "\n",
        ACTIONS if family == "bernoulli" else COSTS,
        "\n[choose]\n",
        _line("folds", folds, "strategies are judged forward in time"),
        _line("ways", ways, '"calibrated" can be added, but takes far longer'),
        _line("today", proposal.today, "CHECK: today's decisions, to compare with") or TODAY,
    ]
    return "".join(text)


def findings_text(proposal: Proposal) -> list[str]:
    """What is odd about the table, a line each, and how the spec settles it."""
    lines = []
    for finding in proposal.findings:
        where = f"column {finding.column!r}: " if finding.column else ""
        settled = ", ".join(
            f"{word!r} is read as {meant!r}" if meant else f"{word!r} is read as no value"
            for word, meant in finding.change
        )
        settled = "they are read as codes" if finding.codes else settled
        lines.append(f"{where}{finding.what}.{f' Here {settled}.' if settled else ''}")
    return lines


def unfilled(raw: Mapping[str, object]) -> tuple[str, ...]:
    """The costs of a spec that are still those which `stakes init --table` writes, by field.

    Examples:
        >>> unfilled({"loss": {"newsvendor": {"under": 1, "over": 1}, "unit": "€"}})
        ('loss.newsvendor.under', 'loss.newsvendor.over')
        >>> unfilled({"loss": {"newsvendor": {"under": 3, "over": 1}}})
        ()
    """
    loss = raw.get("loss")
    for proposed in (COSTS, ACTIONS):
        [(name, costs)] = tomllib.loads(proposed)["loss"].items()
        if isinstance(loss, Mapping) and loss.get(name) == costs:
            return tuple(f"loss.{name}.{argument}" for argument in costs)
    return ()


def unit_of(raw: Mapping[str, object]) -> str | None:
    """The unit of costs, where a spec names it.

    Examples:
        >>> unit_of({"loss": {"squared": True, "unit": "€"}})
        '€'
    """
    sections = [raw.get(name) for name in ("loss", "utility")]
    units = [section.get("unit") for section in sections if isinstance(section, Mapping)]
    return next(filter(None, units), None)


def _line(name: str, value: object, comment: str = "") -> str:
    """A field and its value, with a comment; nothing where it has no value."""
    if value is None or value in ([], {}):
        return ""
    text = f"{name} = {_toml(value)}"
    return f"{text:<32}  # {comment}\n" if comment else f"{text}\n"


def _toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """A name as TOML writes it, in quotes where it needs them."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)
