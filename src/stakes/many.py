"""One problem for each of many groups, such as shops: solved here, or on a Dask cluster."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Data, Key
from stakes.errors import InputError
from stakes.host.text_tables import text_table
from stakes.host.workers import Failed, checked_client, run_each
from stakes.problem import checked_key
from stakes.study import Calibration, Choice, calibrate
from stakes.wording import percent, percent_span

if TYPE_CHECKING:
    import pandas as pd

Groups: TypeAlias = "Mapping[Any, Data] | Iterable[tuple[Any, Data]]"
"""Group -> its data; or pairs of these, such as a pandas `groupby`."""
SHOWN = 10
"""Rows that a printed table has of groups, and of failures."""


@final
@dataclass(frozen=True, eq=False)
class Answer:
    """What is kept of one group: plain values, which can travel between processes."""

    decisions: "pd.Series"
    decided: "pd.Series | None"
    """For the further cases of the group, if there were any."""
    row: Mapping[str, Any]
    """Of the table."""
    verdict: str


@final
@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """The answers for many groups. Made by `stakes.map`; prints as a table.

    Examples:
        >>> import stakes
        >>> print(stakes.Answers({}, {"north": "InputError: no rows"}))
        0 of 1 groups have an answer.
        north: InputError: no rows
    """

    answers: Mapping[Any, Answer]
    failures: Mapping[Any, str]
    """Group -> the error that its problem ended in."""

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
        found = pd.DataFrame.from_dict(rows, orient="index")
        columns = ["risk", "better_by", "low", "high", "way", "converged", "seconds", "error"]
        return found.reindex(columns=columns).rename_axis("group")

    @cached_property
    def decisions(self) -> "pd.Series":
        """The decisions of all groups, one below the other, by group and label."""
        return _stacked({name: answer.decisions for name, answer in self.answers.items()})

    @cached_property
    def decided(self) -> "pd.Series":
        """The decisions for further cases, where `decide=` had any."""
        found = {n: a.decided for n, a in self.answers.items() if a.decided is not None}
        return _stacked(found)

    def __getitem__(self, group: Any) -> Answer:
        if group in self.failures:
            raise KeyError(f"{group!r} has no answer. {self.failures[group]}")
        return self.answers[group]

    def __repr__(self) -> str:
        rows = [["", "risk", "better by", "95 % interval", "way", "seconds"]]
        for name, answer in list(self.answers.items())[:SHOWN]:
            one = answer.row
            span = percent_span(one["low"], one["high"], 2)
            better = percent(one["better_by"], 2)
            seconds = f"{one['seconds']:.1f}"
            rows.append([str(name), f"{one['risk']:.4g}", better, span, one["way"], seconds])
        lines = text_table(rows, right={1, 2, 5}, gap=3) if self.answers else []
        more = len(self.answers) - SHOWN
        lines += [f"... and {more} more groups"] * (more > 0)
        total = len(self.answers) + len(self.failures)
        lines += ["", f"{len(self.answers)} of {total} groups have an answer."]
        lines += [f"{n}: {error}" for n, error in list(self.failures.items())[:SHOWN]]
        more = len(self.failures) - SHOWN
        return "\n".join([*lines, *[f"... and {more} more failures"] * (more > 0)]).lstrip("\n")

    __str__ = __repr__


def map(
    key: Key,
    problem_for: Callable[[Any, Any], Any],
    groups: Groups,
    *,
    solve: Callable[..., Any] = calibrate,
    decide: Mapping[Any, Data] | None = None,
    on: Any = None,
    progress: bool = True,
    **options: Any,
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
    listed, further = _listed(groups), {} if decide is None else _further(decide)
    strangers = [name for name in further if name not in listed]
    if strangers:
        raise InputError(f"`map(decide=...)` has {strangers[0]!r}, which is not among the groups.")
    keys = jax.random.split(key, len(listed))
    # As plain numbers, which can travel between processes.
    kind, numbers = str(jax.random.key_impl(keys)), np.asarray(jax.random.key_data(keys))
    pieces = [
        (_Piece(problem_for, name, data, further.get(name), solve, options), kind, each)
        for (name, data), each in zip(listed.items(), numbers, strict=True)
    ]
    found = run_each(_solved, pieces, title="groups", on=client, show=show)
    both = dict(zip(listed, found, strict=True))
    return Answers(
        {name: one for name, one in both.items() if not isinstance(one, Failed)},
        {name: one.error for name, one in both.items() if isinstance(one, Failed)},
    )


@dataclass(frozen=True, eq=False)
class _Piece:
    """All that it takes to solve the problem of one group, wherever that is done."""

    problem_for: Callable[[Any, Any], Any]
    name: Any
    data: Any
    further: Any
    solve: Callable[..., Any]
    options: Mapping[str, Any]


def _solved(piece: _Piece, kind_of_key: str, numbers: np.ndarray) -> Answer:
    started = time.monotonic()
    key = jax.random.wrap_key_data(jnp.asarray(numbers), impl=kind_of_key)
    problem = piece.problem_for(piece.name, piece.data)
    result = piece.solve(key, problem, piece.data, progress=False, **piece.options)
    if isinstance(result, Calibration):
        row, verdict = _of_calibration(result)
    elif isinstance(result, Choice):
        row, verdict = _of_choice(result)
    else:
        rule = "`stakes.calibrate` or `stakes.choose`"
        raise checks.refused("`map(solve=...)`", rule, piece.solve)
    decided = None if piece.further is None else _as_series(result.decide(piece.further))
    seconds = time.monotonic() - started
    return Answer(_as_series(result.decisions), decided, {**row, "seconds": seconds}, verdict)


def _of_calibration(result: Calibration) -> tuple[dict[str, Any], str]:
    converged = all(fit.converged for fit in result.fits.values())
    if result.on_fit.observed is None:  # decisions about a latent
        return {"way": "calibrated", "converged": converged}, ""
    found = result.compare()
    low, high = found.interval
    row = {"risk": found.risk["LCVI"], "better_by": found.reduction, "low": low, "high": high}
    return {**row, "way": "calibrated", "converged": converged}, found.verdict


def _of_choice(result: Choice) -> tuple[dict[str, Any], str]:
    row = result.table.to_dict(orient="index")[result.chosen]
    found = {name: row[name] for name in ("risk", "better_by", "low", "high")}
    return {**found, "way": result.chosen, "converged": not row.get("note")}, result.verdict


def _as_series(decisions: Any) -> "pd.Series":
    """A column by label, whatever came."""
    if not hasattr(decisions, "to_series"):
        found: pd.Series = decisions
        return found
    for dim in decisions.dims:
        if dim not in decisions.coords:
            decisions = decisions.assign_coords({dim: np.arange(decisions.sizes[dim])})
    made: pd.Series = decisions.to_series()
    return made


def _stacked(columns: Mapping[Any, "pd.Series"]) -> "pd.Series":
    import pandas as pd

    if not columns:
        return pd.Series(dtype=float, name="decision")
    found: pd.Series = pd.concat(columns, names=["group"]).rename("decision")
    return found


def _listed(groups: Any) -> dict[Any, Any]:
    pairs = list(groups.items()) if isinstance(groups, Mapping) else _pairs(groups)
    if not pairs:
        rule = "a mapping from groups to their data, or pairs of these; not an empty one"
        raise checks.refused("`map(groups)`", rule, groups)
    named = dict(pairs)
    if len(named) < len(pairs):
        raise InputError("`map(groups)` has a group more than once.")
    return named


def _pairs(groups: Any) -> list[tuple[Any, Any]]:
    try:
        listed = [] if isinstance(groups, str | bytes) else list(groups)
    except TypeError:
        return []
    paired = all(isinstance(each, tuple) and len(each) == 2 for each in listed)
    return listed if paired else []


def _further(decide: Any) -> dict[Any, Any]:
    if not isinstance(decide, Mapping):
        raise checks.refused("`map(decide=...)`", "a mapping from groups to cases", decide)
    return dict(decide)
