"""One problem for each of many groups, such as shops: solved here, or on a Dask cluster."""

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Any, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Data, Key
from stakes.errors import InputError
from stakes.host.workers import checked_client, has_failed, run_each
from stakes.problem import Problem, checked_key
from stakes.study import Calibration, Choice, calibrate
from stakes.wording import INTERVAL, Printed, Printout, amount, count, percent, percent_span

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Group = TypeVar("Group", bound=Hashable)
GroupData = TypeVar("GroupData", bound=Data)
# Rows that a printed table has of groups, and of failures.
SHOWN = 10


@final
@dataclass(frozen=True, eq=False)
class Answer:
    """The answer for one group: plain values, which can travel between processes.

    Attributes:
        decisions: about the cases of the group.
        decided: about its further cases, if there were any.
        row: of the table.
        verdict: the sentence that says how sure the answer is.
    """

    decisions: "pd.Series"
    decided: "pd.Series | None"
    row: Mapping[str, Any]
    verdict: str


@final
@dataclass(frozen=True, eq=False, repr=False)
class Answers(Printed):
    """The answers for many groups. Made by `stakes.map`; prints as a table.

    Attributes:
        failures: group -> the error that its problem ended in.

    Examples:
        >>> import stakes
        >>> print(stakes.Answers({}, {"north": "InputError: no rows"}))
        0 of 1 groups have an answer.
        north: InputError: no rows
    """

    answers: Mapping[Hashable, Answer]
    failures: Mapping[Hashable, str]

    def __post_init__(self) -> None:
        checks.fields(self, answers=Mapping, failures=Mapping)

    @cached_property
    def table(self) -> "pd.DataFrame":
        """One row for each group.

        `risk` is the mean cost of the group's decisions, `better_by` by how much it is below that
        of plain VI, as a share, with a 95 % interval from `low` to `high`; `way` is what decides,
        and `error` says why a group has no answer.
        """
        import pandas as pd

        rows = {name: dict(answer.row) for name, answer in self.answers.items()}
        rows |= {name: {"error": error} for name, error in self.failures.items()}
        columns = ["risk", "better_by", "low", "high", "way", "converged", "seconds", "error"]
        table = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns)
        return table.rename_axis("group")

    @cached_property
    def decisions(self) -> "pd.Series":
        """The decisions of all groups, one below the other, by group and label."""
        return _stack({name: answer.decisions for name, answer in self.answers.items()})

    @cached_property
    def decided(self) -> "pd.Series":
        """The decisions for further cases, where `decide=` had any."""
        answers = self.answers.items()
        return _stack({name: a.decided for name, a in answers if a.decided is not None})

    def __getitem__(self, group: Hashable) -> Answer:
        if group in self.failures:
            raise KeyError(f"{group!r} has no answer. {self.failures[group]}")
        return self.answers[group]

    @property
    def printout(self) -> Printout:
        """The first groups, how many there are, and the first failures."""
        rows = [["", "risk", "better by", INTERVAL, "strategy", "seconds"]]
        for name, answer in list(self.answers.items())[:SHOWN]:
            row = answer.row
            span = percent_span(row["low"], row["high"], unknown="none")
            better = percent(row["better_by"])
            seconds = f"{row['seconds']:.1f}"
            rows.append([str(name), amount(row["risk"]), better, span, row["way"], seconds])
        left = len(self.answers) - SHOWN
        notes = [f"... and {count(left, 'more group')}"] if left > 0 else []
        total = len(self.answers) + len(self.failures)
        lines = [f"{len(self.answers):,} of {total:,} groups have an answer."]
        lines += [f"{n}: {error}" for n, error in list(self.failures.items())[:SHOWN]]
        left = len(self.failures) - SHOWN
        lines += [f"... and {count(left, 'more failure')}"] if left > 0 else []
        return Printout(rows if self.answers else [], {1, 2, 5}, notes, lines)


def map(
    key: Key,
    problem_for: Callable[[Group, GroupData], Problem],
    groups: Mapping[Group, GroupData] | Iterable[tuple[Group, GroupData]],
    *,
    solve: Callable[..., Calibration | Choice] = calibrate,
    decide: Mapping[Group, Data] | None = None,
    on: object = None,
    progress: bool = True,
    **options: object,
) -> Answers:
    """Solve one problem for each of many groups, and gather the answers into one table.

    A group whose problem ends in an error is listed with that error, and does not stop the others.
    The numbers are the same wherever the work is done.

    Args:
        key: a JAX random key, from which each group gets a key of its own, by its position.
        problem_for: (group, data) -> its `Problem`. One model function for all groups saves
            compiling it again for groups of the same size.
        groups: group -> its data, or pairs of these such as `frame.groupby("shop")`.
        solve: `stakes.calibrate` or `stakes.choose`.
        decide: group -> further cases to decide about, as in `Calibration.decide`.
        on: a `dask.distributed.Client`: groups are shared out among its workers.
        progress: whether to show a progress bar on a terminal.
        options: further arguments of `solve`, the same for all groups.

    Examples:
        >>> import jax, numpyro, numpyro.distributions as dist, stakes
        >>> def sales(n, sold=None):
        ...     rate = numpyro.sample("rate", dist.Gamma(2, 0.1))
        ...     with numpyro.plate("day", n):
        ...         numpyro.sample("sold", dist.Poisson(rate), obs=sold)
        >>> def problem(shop, data):
        ...     return stakes.Problem(sales, outcome="sold", loss=stakes.Newsvendor(3, 1))
        >>> shops = {"north": {"n": 3, "sold": [9, 12, 11]}, "south": {"n": 2, "sold": [30, -1]}}
        >>> answers = stakes.map(jax.random.key(0), problem, shops, steps=300)
        >>> answers.decisions["north"].tolist()
        [13.0, 13.0, 13.0]
        >>> list(answers.failures)
        ['south']
    """
    key = checked_key(key)
    checks.function("`map(problem_for)`", problem_for, ("group", "data"))
    checks.function("`map(solve=...)`", solve, ("key", "problem", "data"))
    show = checks.flag("`map(progress=...)`", progress)
    client = None if on is None else checked_client(on)
    by_group, further = _by_group(groups), {} if decide is None else decide
    if not isinstance(further, Mapping):
        raise checks.refused("`map(decide=...)`", "a mapping from groups to cases", decide)
    for name in further:
        if name not in by_group:
            raise InputError(f"`map(decide=...)` has {name!r}, which is not among the groups.")
    keys = jax.random.split(key, len(by_group))
    # As plain numbers, which can travel between processes.
    kind, numbers = str(jax.random.key_impl(keys)), np.asarray(jax.random.key_data(keys))
    pieces = [
        (_GroupTask(problem_for, name, data, further.get(name), solve, options), kind, words)
        for (name, data), words in zip(by_group.items(), numbers, strict=True)
    ]
    outcomes = run_each(_solve, pieces, title="groups", on=client, show=show)
    answers: dict[Hashable, Answer] = {}
    failures: dict[Hashable, str] = {}
    for name, outcome in zip(by_group, outcomes, strict=True):
        if has_failed(outcome):
            failures[name] = outcome.error
        else:
            answers[name] = outcome
    return Answers(answers, failures)


@dataclass(frozen=True, eq=False)
class _GroupTask:
    """The problem of one group, wherever it is solved."""

    problem_for: Callable[..., Problem]
    name: Hashable
    data: Data
    further: Data | None
    solve: Callable[..., Calibration | Choice]
    options: Mapping[str, object]


def _solve(task: _GroupTask, kind_of_key: str, numbers: np.ndarray) -> Answer:
    started = time.monotonic()
    key = jax.random.wrap_key_data(jnp.asarray(numbers), impl=kind_of_key)
    problem = task.problem_for(task.name, task.data)
    result = task.solve(key, problem, task.data, progress=False, **task.options)
    try:
        row, verdict = _summary(result)
    except NotImplementedError:
        rule = "`stakes.calibrate` or `stakes.choose`"
        raise checks.refused("`map(solve=...)`", rule, task.solve) from None
    decided = None if task.further is None else _as_series(result.decide(task.further))
    seconds = time.monotonic() - started
    return Answer(_as_series(result.decisions), decided, {**row, "seconds": seconds}, verdict)


@singledispatch
def _summary(result: object) -> tuple[dict[str, Any], str]:
    """The row of a group in the table, and the verdict about it."""
    raise NotImplementedError


@_summary.register
def _(result: Calibration) -> tuple[dict[str, Any], str]:
    converged = all(fit.converged for fit in result.fits.values())
    if result.on_fit.observed is None:  # decisions about a latent
        return {"way": "calibrated", "converged": converged}, ""
    comparison = result.compare()
    row = {"risk": comparison.risk["LCVI"], **comparison.reductions["LCVI"].numbers}
    return {**row, "way": "calibrated", "converged": converged}, comparison.verdict


@_summary.register
def _(result: Choice) -> tuple[dict[str, Any], str]:
    entry = result.table.to_dict(orient="index")[result.chosen]
    row = {name: entry[name] for name in ("risk", "better_by", "low", "high")}
    return {**row, "way": result.chosen, "converged": not entry.get("note")}, result.verdict


def _as_series(decisions: "pd.Series | xr.DataArray") -> "pd.Series":
    """Return decisions as a column by label."""
    import pandas as pd

    if isinstance(decisions, pd.Series):
        return decisions
    for dim in decisions.dims:
        if dim not in decisions.coords:
            decisions = decisions.assign_coords({dim: np.arange(decisions.sizes[dim])})
    series: pd.Series = decisions.to_series()
    return series


def _stack(columns: Mapping[Hashable, "pd.Series"]) -> "pd.Series":
    """Return one column below the other, by group and label."""
    import pandas as pd

    if not columns:
        return pd.Series(dtype=float, name="decision")
    stack: pd.Series = pd.concat(columns, names=["group"]).rename("decision")
    return stack


def _by_group(
    groups: Mapping[Group, GroupData] | Iterable[tuple[Group, GroupData]],
) -> dict[Group, GroupData]:
    """Return the data of each group, or refuse what is no mapping and no pairs."""
    pairs = _pairs(groups.items() if isinstance(groups, Mapping) else groups)
    if not pairs:
        rule = "a mapping from groups to their data, or pairs of these; not an empty one"
        raise checks.refused("`map(groups)`", rule, groups)
    by_group: dict[Group, GroupData] = dict(pairs)
    if len(by_group) < len(pairs):
        raise InputError("`map(groups)` has a group more than once.")
    return by_group


def _pairs(groups: Any) -> list[tuple[Any, Any]]:
    """Return all pairs; none where something else came."""
    try:
        pairs = list(groups)
    except TypeError:  # such as an array without axes, though its class has an iterator
        return []
    are_pairs = all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
    return pairs if are_pairs else []
