"""What is refused or warned of: decisions, fits, labels and judgements that would mislead."""

import numpy as np

from stakes import checks
from stakes._types import Data
from stakes.decisions import SecondMinimum
from stakes.errors import InputError, NumericalError, listed, some, warn
from stakes.fitting import Fit, Stop
from stakes.port import Instances
from stakes.problem import Problem
from stakes.protocols import Space
from stakes.study.data import Coords


def check_judged(problem: Problem) -> None:
    reason = why_not_judged(problem)
    if reason is not None:
        instead = "Compare `result.decisions` with `result.vi_decisions`"
        if problem.action is not None:
            instead = "Look at `result.expected(...)`"
        raise InputError(f"{reason} {instead}.")


def why_not_judged(problem: Problem) -> str | None:
    """Why the data cannot say how good decisions have been; None where they can."""
    if problem.about_latent:
        return (
            f"Decisions about {problem.outcome!r}, which is never observed, cannot be judged by "
            f"data: they rest on the model alone."
        )
    if problem.action is not None:
        return (
            f"Decisions about {problem.action!r} change the outcome, and the outcomes in the data "
            f"happened at the decisions that were made: they cannot say what other decisions would "
            f"have led to. Try these to find out."
        )
    return None


def check_decisions(decisions: np.ndarray) -> None:
    for end, where, too in ((-np.inf, "falls", "low"), (np.inf, "rises", "high")):
        endless = decisions == end
        if endless.any():
            raise NumericalError(
                f"{int(endless.sum())} of {decisions.size} decisions are infinite: the more the "
                f"decision {where}, the better, or at least never worse. Such a decision needs "
                f"limits: say in the loss or utility what too {too} a decision costs."
            )
    bad = ~np.isfinite(decisions)
    if bad.any():
        raise NumericalError(
            f"{int(bad.sum())} of {decisions.size} decisions are not finite, because the expected "
            f"loss or utility is not. Either the window of an enumeration is too small (give a "
            f"larger `Enumeration(points=...)`), or the expectation of the loss is infinite."
        )


def warn_of_unseen_decisions(problem: Problem, arrays: Data, decisions: np.ndarray) -> None:
    assert problem.action is not None
    made = np.asarray(arrays[problem.action], float)
    low, high = made.min(), made.max()
    beyond = beyond_made(problem.space, made, decisions)
    if not beyond.any():
        return
    where = f"outside those in the data, {low:.6g} to {high:.6g}"
    remedy = (
        f"Narrow the limits, `decision={{{problem.action!r}: Interval({low:.4g}, {high:.4g})}}`"
    )
    if problem.space.labels:
        never = problem.space.to_labels(np.unique(decisions[beyond]))
        where, remedy = (
            f"beyond those in the data: {listed(map(str, never))}",
            "Leave such actions out",
        )
    warn(
        f"{int(beyond.sum())} of {decisions.size} best decisions about {problem.action!r} lie "
        f"{where}: they rest on the model alone. {remedy}, or try such decisions "
        f"first."
    )


def beyond_made(space: Space, made: np.ndarray, decisions: np.ndarray) -> np.ndarray:
    """Which decisions lie beyond all that were ever made; of actions, which never were."""
    if space.labels:
        return ~np.isin(decisions, made)
    found: np.ndarray = (decisions < made.min() - 1e-6) | (decisions > made.max() + 1e-6)
    return found


def warn_of_second_minimum(problem: Problem, second: SecondMinimum) -> None:
    """Where decisions far apart are nearly equally good, chance may choose between them."""
    exists = np.asarray(second.exists)
    if not exists.any():
        return
    at = tuple(int(i) for i in np.argwhere(exists)[0])
    best, other = (float(np.asarray(each.place)[at]) for each in (second.best, second.other))
    worth = problem.criterion.worth
    here, there, between = (
        float(worth(value)[at]) for value in (second.best.value, second.other.value, second.between)
    )
    warn(
        f"Under `{problem.criterion.title}`, decisions far apart are nearly equally good in "
        f"{int(exists.sum())} of {exists.size} cases: {best:.4g} ({here:.4g} on average) and "
        f"{other:.4g} ({there:.4g}), for example, and {between:.4g} between them. A little more "
        f"data may make the other one the best; look at both, "
        f"`result.expected([{best:.4g}, {other:.4g}])`."
    )


def check_fit(name: str, fit: Fit) -> None:
    if fit.reason is Stop.NUMERICAL_FAILURE and fit.skipped >= fit.steps:
        raise NumericalError(
            f"The {name} fit found no finite bound and gradient at all in {fit.steps} steps. Check "
            f"the model's priors and the size of the data, give a smaller step "
            f"(`optimizer=optax.adam(1e-3)`) or, for counts, a larger `Enumeration(points=...)`."
        )


def check_whole(name: str, fit: Fit) -> None:
    """Refuse a fit that was cut short, where the figures of a whole one are to be kept."""
    check_fit(name, fit)
    if fit.reason is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    if fit.reason is Stop.NUMERICAL_FAILURE:
        raise NumericalError(f"The {name} fit {fit.reason} (after {fit.steps} steps).")


def check_coords(coords: Coords | None, *labelled: Instances) -> None:
    sizes = {d: n for each in labelled for d, n in zip(each.dims, each.shape, strict=True)}
    given = {} if coords is None else checks.labels("`coords=`", coords)
    for name, labels in given.items():
        if name not in sizes:
            raise InputError(f"`coords` labels {name!r}; the plates are {some(sizes)}.")
        if len(labels) != sizes[name]:
            raise InputError(
                f"`coords[{name!r}]` has {len(labels)} labels for {sizes[name]} members."
            )
