"""What each decision is expected to cost, where decisions change outcomes.

Nobody has seen what other decisions would have led to, so the curve rests on the model. It is drawn
for each group of cases that shares a decision, with a band for what is not known of θ, and says
which decisions were never made.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from stakes.report.rows import Rows
from stakes.report.what_if import CostLine, Curve
from stakes.study import Calibration, Cases, beyond_made
from stakes.varying import GroupOf

# Decisions between their limits at which a curve is computed.
POINTS = 33
# Draws of θ behind each point of a curve: its band needs its 5 and 95 % quantiles alone.
DRAWS = 400
# Groups of cases that share a decision, each with a curve of its own.
MOST_GROUPS = 6


def curve(result: Calibration, rows: Rows) -> Curve | None:
    """Return the expected cost of a range of decisions; None where decisions do not change
    outcomes.

    Args:
        result: whose data have the decisions made so far.
        rows: the cases to decide about.
    """
    problem, cases = result.problem, rows.cases
    if problem.action is None:
        return None
    tried, labels = _tried(cases)
    made = np.asarray(result.on_fit.predictor.arrays[problem.action], float)
    groups, beyond = _groups(rows), beyond_made(problem.space, made, rows.decisions)
    # One for each group: all members have the same.
    each = (
        beyond if problem.task.per is None else [beyond[members[0]] for members in groups.values()]
    )
    return Curve(
        action=problem.action,
        decisions=tried,
        labels=labels,
        lines=_lines(rows, dict(list(groups.items())[:MOST_GROUPS]), tried, beyond),
        groups=len(groups),
        made=(float(made.min()), float(made.max())),
        beyond=int(np.sum(each)),
        count=len(each),
        gain=problem.loss is None,
    )


def _lines(
    rows: Rows, groups: dict[str, np.ndarray], tried: np.ndarray, beyond: np.ndarray
) -> tuple[CostLine, ...]:
    """Return the curve of each group of cases.

    Args:
        rows: the cases.
        groups: name -> numbers of the cases that share a decision.
        tried: decisions at which the curve is computed.
        beyond: which decisions to take were never made.
    """
    cases = rows.cases
    own, seen = cases.problem.task.per is None, cases.observations
    # Cases that matter to a decision that they share.
    counted = np.ones(cases.size, bool) if seen is None else seen.counted.ravel()
    shared = replace(cases, problem=replace(cases.problem, per="all")) if own else cases

    def at(decision: float) -> np.ndarray:
        """(mean, low, high) x case, of all cases together that share the decision."""
        found = shared.expected(rows.posterior, float(decision), DRAWS)
        return found.reshape(3, -1)

    curves = np.stack([at(decision) for decision in tried], axis=1)
    found = []
    for name, members in groups.items():
        first, count = members[0], max(counted[members].sum(), 1)
        taken = rows.decisions[members]
        alike = np.ptp(taken) == 0
        there = at(taken[0])[:, first] / count if alike else np.full(3, np.nan)
        mean, low, high = curves[:, :, first] / count
        found.append(
            CostLine(
                group=name,
                mean=mean,
                low=low,
                high=high,
                decision=float(taken.mean()),
                expected=tuple(there.tolist()),
                beyond=bool(beyond[members].any()),
            )
        )
    return tuple(found)


def _tried(cases: Cases) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return decisions between their limits, or all actions; and the labels of actions.

    Limits may be any, so the space moves each decision to the nearest one that is allowed.
    """
    space = cases.problem.space
    some = np.array(cases.problem.some_decisions)
    if space.actions is not None:
        return some, () if space.are_numbers else tuple(map(str, space.labels))
    between = np.linspace(some[0], some[-1], POINTS)
    return np.unique(np.array(space.inside(jnp.asarray(between)))), ()


def _groups(rows: Rows) -> dict[str, np.ndarray]:
    """Return name -> the cases that share a decision; all together where each has its own."""
    cases, per = rows.cases, rows.cases.problem.task.per
    if per is None or per == "all":
        return {"": np.arange(cases.size)}
    number = np.asarray(cases.predictor.columns((GroupOf(per),))[GroupOf(per)]).ravel()
    found = {}
    for each in np.unique(number):
        members = np.flatnonzero(number == each)
        found[f"{per} {_name(rows, per, members[0], int(each))}"] = members
    return found


def _name(rows: Rows, per: str, member: int, number: int) -> str:
    """Return what a group is called: a word of the table, a label of the plate, or a number."""
    shape, dims = rows.cases.instances
    if per in rows.inputs:
        return str(rows.inputs[per][member])
    if per in dims:
        labels = rows.cases.coords.get(per)
        return str(number if labels is None else np.asarray(labels)[number])
    values = np.broadcast_to(np.asarray(rows.cases.predictor.arrays[per]), shape)
    return str(values.ravel()[member])
