"""The ways of `stakes` on the model that a contest brings, and the one that `choose` takes."""

import time
from collections.abc import Callable

import jax
import numpy as np

import stakes
from benchmarks.against.contest import Contest
from benchmarks.against.costs import Cost
from benchmarks.against.keeping import Decided, file_of
from benchmarks.against.ways import default_ways, falling
from stakes.study import Choice, Study, Work, chosen_among, enter

CHOSEN = "stakes, as chosen"
PLAIN = "stakes, plain VI"
OPTIONS = falling(1_000)
"""Of each fit: fewer steps than by default, for the many contests."""


def competes(tool: str) -> bool:
    """Whether it could be had without knowing the outcomes: no single way, picked in hindsight."""
    return not is_way(tool)


def is_way(tool: str) -> bool:
    """Whether it is a single way of `stakes`."""
    return tool.startswith("stakes") and tool != CHOSEN


def decided(
    contest: Contest, *, compute: bool = True, say: Callable[[str], None] = print
) -> dict[str, Decided]:
    """By tool: each way by itself, and the way that was chosen; nan for costs not done yet."""
    found: list[dict[str, Decided]] = []
    first: Choice | None = None
    for cost in contest.costs:
        folder = f"{contest.name}/{file_of(cost.name)}"
        # Written last, so that a cost is either done or not.
        if compute and CHOSEN not in Decided.kept_in(folder):
            choice, made = choose(contest, cost, first)
            first = first or choice
            for name in [*(name for name in made if name != CHOSEN), CHOSEN]:
                made[name].keep(folder, name)
            say(f"{contest.name}: {cost.name}: {choice.chosen}")
        kept = Decided.kept_in(folder)
        found.append(kept if CHOSEN in kept else {})
    names = dict.fromkeys(name for ways in found for name in ways)
    missing = Decided(np.full(contest.outcomes.shape, np.nan), np.array(np.nan), {})
    decisions = {}
    for name in names:
        each = [ways.get(name, missing) for ways in found]
        decisions[name] = Decided(
            np.stack([one.decisions for one in each]),
            np.array([float(one.seconds) for one in each]),
            {cost.name: one.notes for cost, one in zip(contest.costs, each, strict=True)},
        )
    return decisions


def choose(
    contest: Contest, cost: Cost, before: Choice | None = None
) -> tuple[Choice, dict[str, Decided]]:
    """Decisions (table, row) by every way, and by the chosen one, which took the time of all.

    Fits of plain VI are those of the choice `before`, for another cost of the same contest.
    """
    model = contest.model
    problem = stakes.Problem(model.function, outcome=model.outcome, loss=cost.loss())
    settings = dict(model.choosing)
    ways = settings.pop("ways", default_ways)()
    settings = {"folds": 5, "by": None, "options": OPTIONS, **settings}
    started = time.process_time()
    work = Work(progress=False, before=before and before.study)
    study = Study(jax.random.key(0), problem, dict(model.data), work=work, **settings)
    enter(study, ways)
    choice = chosen_among(study, ways)
    new = {name: values for name, values in model.new_data.items() if name != model.outcome}

    # The cases once for all ways, so that what they share is found once.
    cases = study.plan.cases(study.keys, study.plan.read(new), model.new, model.known)
    made = {
        f"stakes, {score.name}": model.arranged(choice.fitted(score.name).decide(cases))
        for score in choice.scores
    }
    seconds = time.process_time() - started
    table = choice.table
    note = {"way": choice.chosen, "verdict": choice.verdict}
    decided = {CHOSEN: Decided(made[f"stakes, {choice.chosen}"], np.array(seconds), note)}
    for way in table.index:
        row = {"risk in folds": float(table.loc[way, "risk"])}
        took = np.array(float(table.loc[way, "seconds"]))
        decided[f"stakes, {way}"] = Decided(made[f"stakes, {way}"], took, row)
    return choice, decided
