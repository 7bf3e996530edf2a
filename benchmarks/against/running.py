"""One contest from end to end: the rivals, our ways, and the result."""

import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.against import ours, scoring
from benchmarks.against.contest import Contest
from benchmarks.against.keeping import Decided
from benchmarks.against.rivals import RIVALS, SecondMinimum
from benchmarks.against.tuning import tuned

PACKAGES = ("stakes", "numpyro", "jax", "lightgbm", "quantile-forest", "scikit-learn")


def run(
    contest: Contest, *, compute: bool = True, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """The result of a contest; decisions that are kept are not computed again.

    Without `compute` it is that of what is kept, which may be less than all.
    """
    mine = ours.decided(contest, compute=compute, say=say)
    for name, found in mine.items():
        say(_line(contest, name, found))
    decided: dict[str, Decided] = {}
    for rival in RIVALS:
        made = Decided.kept(contest.name, rival.name)
        if made is None and compute:
            made = by_rival(rival, contest)
            made.keep(contest.name, rival.name)
        if made is not None:
            decided[rival.name] = made
            say(_line(contest, rival.name, made))
    whole = len(decided) == len(RIVALS)
    decided |= mine
    own = decided.get(ours.CHOSEN)
    whole &= own is not None and not np.isnan(own.decisions).any()
    return {**result(contest, decided), "complete": whole}


def by_rival(rival: SecondMinimum, contest: Contest) -> Decided:
    """Each table on its own; a fit that serves several costs shares its seconds among them."""
    costs = [cost for cost in contest.costs if rival.applies(cost)]
    decisions = np.full((len(contest.costs), *contest.outcomes.shape), np.nan)
    seconds = np.full(len(contest.costs), np.nan)
    notes: dict[str, Any] = {cost.name: [] for cost in costs}
    places = [contest.costs.index(cost) for cost in costs]
    started = time.process_time()
    for at, table in enumerate(contest.tables if costs else ()):
        decisions[places, at], settings = tuned(rival, table, costs)
        for cost, setting in zip(costs, settings, strict=True):
            notes[cost.name].append(setting)
    seconds[places] = (time.process_time() - started) / max(len(costs), 1)
    return Decided(decisions, seconds, notes)


def costs_of(contest: Contest, decided: Decided) -> np.ndarray:
    """(cost, table, row): what the decisions cost on the outcomes held out."""
    outcomes = contest.outcomes
    return np.stack(
        [cost(outcomes, made) for cost, made in zip(contest.costs, decided.decisions, strict=True)]
    )


def result(contest: Contest, decided: dict[str, Decided]) -> dict[str, Any]:
    """Risks, differences from the best tool with intervals, and seconds, by cost and tool."""
    paid = {tool: costs_of(contest, made) for tool, made in decided.items()}
    by_cost = {
        cost.name: _table(contest, {tool: found[at] for tool, found in paid.items()})
        for at, cost in enumerate(contest.costs)
    }
    for at, cost in enumerate(contest.costs):
        for tool, row in by_cost[cost.name].items():
            row["seconds"] = float(decided[tool].seconds[at])
            row["note"] = decided[tool].notes.get(cost.name)
    first = contest.tables[0]
    return {
        "title": contest.title,
        "unit": contest.unit,
        "fitted": len(first.y),
        "judged": len(first.new_y),
        "tables": len(contest.tables),
        "by cost": by_cost,
        "all costs": _table(contest, {tool: found.mean(axis=0) for tool, found in paid.items()})
        if len({type(cost) for cost in contest.costs}) == 1
        else {},
        "choices": _choices(contest, decided),
        "versions": _versions(),
    }


def _choices(contest: Contest, decided: dict[str, Decided]) -> list[dict[str, Any]]:
    """For each table and cost: the chosen way beside plain VI and beside the best way.

    Which way is best is known in hindsight alone, from the rows held out.
    """
    ways = {tool: costs_of(contest, made) for tool, made in decided.items() if ours.is_way(tool)}
    if ours.CHOSEN not in decided or ours.PLAIN not in ways:
        return []
    chosen, found = costs_of(contest, decided[ours.CHOSEN]), []
    for at, cost in enumerate(contest.costs):
        for place, table in enumerate(contest.tables):
            mine, plain = chosen[at, place], ways[ours.PLAIN][at, place]
            if np.isnan(mine).any():
                continue
            gap = scoring.difference(
                mine[None], plain[None], contest.cluster, in_order=contest.in_order
            )
            risks = {tool: float(paid[at, place].mean()) for tool, paid in ways.items()}
            best = min(risks, key=lambda tool: risks[tool])
            found.append(
                {
                    "cost": cost.name,
                    "table": table.name,
                    "chosen": decided[ours.CHOSEN].notes[cost.name]["way"],
                    "more than plain": [share / abs(plain.mean()) for share in gap],
                    "best": best,
                    "more than best": float(mine.mean()) / risks[best] - 1,
                }
            )
    return found


def _table(contest: Contest, paid: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """By tool: the mean of (table, row) and its difference from the best tool's."""
    applied = {tool: found for tool, found in paid.items() if not np.isnan(found).any()}
    best = min(filter(ours.competes, applied), key=lambda tool: float(applied[tool].mean()))
    rows = {}
    for tool, found in applied.items():
        gap = scoring.difference(found, applied[best], contest.cluster, in_order=contest.in_order)
        rows[tool] = {
            "risk": float(found.mean()),
            "more": gap.mean,
            "low": gap.low,
            "high": gap.high,
        }
    return rows


def _versions() -> dict[str, str]:
    installed = {found.name: found.version for found in metadata.distributions()}
    return {name: installed[name] for name in PACKAGES if name in installed}


def _line(contest: Contest, tool: str, decided: Decided) -> str:
    risks = costs_of(contest, decided).mean(axis=(1, 2))
    shown = "  ".join(
        f"{cost.name} {risk:.4g}"
        for cost, risk in zip(contest.costs, risks, strict=True)
        if not np.isnan(risk)
    )
    return f"{contest.name}: {tool}: {shown} ({np.nansum(decided.seconds):.0f} s)"
