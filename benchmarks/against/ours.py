"""The ways of `stakes` on the model that a contest brings, and the one that `choose` takes."""

import time

import jax
import numpy as np

import stakes
from benchmarks.against.contest import Contest
from benchmarks.against.costs import Cost
from benchmarks.against.keeping import Decided, file_of
from benchmarks.against.ways import default_ways
from stakes.calibration import Keys, fit_vi, predictor_for, prepare
from stakes.calibration import decided as decided_under
from stakes.predicting import FittedPosterior

CHOSEN = "stakes, as chosen"
ONE_FIT = "stakes, plain VI, one fit for all costs"
STEPS = 5_000
"""Of each fit at most: fewer than by default, for the many contests."""


def competes(tool: str) -> bool:
    """Whether it could be had without knowing the outcomes: no single way, picked in hindsight."""
    return not tool.startswith("stakes") or tool in (CHOSEN, ONE_FIT)


def decided(contest: Contest, *, compute: bool = True) -> dict[str, Decided]:
    """By tool: each way by itself, and the way that was chosen; nan for costs not done yet."""
    found = [_kept_or_chosen(contest, cost, compute=compute) for cost in contest.costs]
    names = dict.fromkeys(name for ways in found for name in ways)
    missing = Decided(np.full(contest.outcomes.shape, np.nan), np.array(np.nan), {})
    made = {}
    for name in names:
        each = [ways.get(name, missing) for ways in found]
        made[name] = Decided(
            np.stack([one.decisions for one in each]),
            np.array([float(one.seconds) for one in each]),
            {cost.name: one.notes for cost, one in zip(contest.costs, each, strict=True)},
        )
    return made


def _kept_or_chosen(contest: Contest, cost: Cost, *, compute: bool = True) -> dict[str, Decided]:
    folder = f"{contest.name}/{file_of(cost.name)}"
    # Written last, so that a cost is either done or not.
    if compute and CHOSEN not in Decided.kept_in(folder):
        made = choose(contest, cost)
        for name in [*(name for name in made if name != CHOSEN), CHOSEN]:
            made[name].keep(folder, name)
    found = Decided.kept_in(folder)
    return found if CHOSEN in found else {}


def by_one_fit(contest: Contest) -> Decided:
    """By plain VI, whose posterior does not depend on the cost; nothing is chosen by folds."""
    model, costs, key = contest.model, contest.costs, jax.random.key(0)
    options = model.choosing.get("options", stakes.Options(steps=STEPS))
    keys = Keys.of(key)
    problems = [
        stakes.Problem(model.function, outcome=model.outcome, loss=cost.loss()) for cost in costs
    ]
    started = time.process_time()
    plan = prepare(keys.setup, problems[0], dict(model.data), options)
    (fit,) = fit_vi(key[None], plan).fits
    posterior = FittedPosterior(plan.approximation, fit.params)
    new = {name: values for name, values in model.new_data.items() if name != model.outcome}
    checked = problems[0].check_data(new, needs_outcome=False)
    predictor, _ = predictor_for(
        plan.predictors, plan.approximation, {}, checked, model.new, model.known, None
    )
    found = [
        model.arranged(decided_under(problem, posterior, predictor, plan.expectation, keys))
        for problem in problems
    ]
    seconds = (time.process_time() - started) / len(costs)
    return Decided(np.stack(found), np.full(len(costs), seconds), {})


def choose(contest: Contest, cost: Cost) -> dict[str, Decided]:
    """Decisions (table, row) by every way, and by the chosen one, which took the time of all."""
    model = contest.model
    problem = stakes.Problem(model.function, outcome=model.outcome, loss=cost.loss())
    settings = {
        "steps": STEPS,
        **model.choosing,
        "ways": model.choosing.get("ways", default_ways)(),
    }
    started = time.process_time()
    choice = stakes.choose(jax.random.key(0), problem, dict(model.data), progress=False, **settings)
    new = {name: values for name, values in model.new_data.items() if name != model.outcome}

    def by(way: str | None) -> np.ndarray:
        found = choice.decide(new, known=model.known, new=model.new, way=way)
        return model.arranged(found.values)

    chosen = by(None)
    seconds = time.process_time() - started
    table = choice.table
    note = {"way": choice.chosen, "verdict": choice.verdict}
    made = {CHOSEN: Decided(chosen, np.array(seconds), note)}
    for way in table.index:
        row = {"risk in folds": float(table.loc[way, "risk"])}
        made[f"stakes, {way}"] = Decided(by(way), np.array(float(table.loc[way, "seconds"])), row)
    return made
