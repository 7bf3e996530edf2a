"""The choice among ways in a run: made, kept as plain arrays, and followed later."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import jax
import numpy as np

from stakes import checks
from stakes.app.runs.manifest import Chosen, Saved, WayRow
from stakes.app.spec import Job
from stakes.errors import InputError
from stakes.predicting import Posterior
from stakes.study import (
    NO_FOLDS,
    Assessment,
    Bench,
    Calibrated,
    Calibration,
    Choice,
    Coords,
    Fitted,
    Forecast,
    Ground,
    Outlook,
    Plain,
    Same,
    choose,
    kept,
    opened_bench,
    restored,
    why_not_judged,
)

if TYPE_CHECKING:
    import xarray as xr

TWO = (Plain(), Calibrated())
"""The ways whose fits to everything a run has anyway."""
COSTS = "costs of "
TODAY = "what is done today"
SAME = Same().name
CORRECTED = ", corrected by "


WORDS = {
    "plain VI": "the best decision for what the model predicts",
    "calibrated": "the best decision for what the model predicts, fitted with the cost in mind",
    "NUTS": "the best decision for what the model predicts, fitted by sampling",
    SAME: "one decision for all, the best single one for the outcomes known",
    TODAY: "the decisions of today, from the table",
}
HEADS = {
    "shift": "all decisions moved and spread by two numbers",
    "level": "another quantile of the prediction",
    "monotone": "decisions moved by an amount that depends on the decision",
    "network": "decisions moved by a small neural network",
}


def in_words(name: str) -> str:
    """What the way of this name is, in plain words."""
    base, _, head = name.partition(CORRECTED)
    if head:
        return f"{WORDS[base]}; then {HEADS[head]}, by what happened to rows that were left out"
    kind, _, strength = name.partition(", strength ")
    return WORDS[kind] + (f", {strength} times as much" if strength else "")


def check_choice(job: Job) -> None:
    """Refuse, before anything is fitted or written, what some way cannot handle."""
    if job.choosing is not None:
        _bench(job, job.choosing.ways, job.choosing.folds, progress=False)


def _bench(
    job: Job,
    ways: Sequence[Any],
    folds: Any,
    *,
    progress: bool,
    coords: Coords | None = None,
    on: Any = None,
) -> Bench:
    assert job.choosing is not None
    return opened_bench(
        jax.random.key(job.spec.seed),
        job.problem,
        job.data(job.fit.arguments),
        ways,
        folds,
        job.choosing.by,
        options=job.options,
        coords=coords,
        progress=progress,
        on=on,
    )


def chosen_for(
    job: Job, result: Calibration, *, progress: bool, on: Any = None
) -> tuple[Chosen, dict[str, np.ndarray]]:
    """Cross-fit the ways: what came out, and what is needed to decide by each of them."""
    assert job.choosing is not None
    choice = choose(
        jax.random.key(job.spec.seed),
        job.problem,
        job.data(job.fit.arguments),
        job.choosing.ways,
        job.choosing.folds,
        job.choosing.by,
        options=job.options,
        coords=result.coords,
        progress=progress,
        on=on,
    )
    fitted = {entry.way: entry.fitted for entry in choice.entries}
    arrays = kept(fitted, choice.bench, own_fits(result))
    costs = {f"{COSTS}{entry.name}": entry.costs for entry in choice.entries}
    return _record(choice), {**arrays, **costs}


def refitted(
    job: Job, result: Calibration, chosen: str, *, progress: bool, on: Any = None
) -> dict[str, np.ndarray]:
    """What the chosen way, and the same for all, decide by once they are fitted to all rows.

    The two fits of the result are there already.

    Args:
        job: on all rows.
        result: its two fits.
        chosen: the name of the way.
    """
    assert job.choosing is not None
    named = [way for way in job.choosing.ways if way.name in (chosen, SAME)]
    ways = [way for way in named if way not in TWO]
    # What stands on another way has to see what that decides about rows it has not seen.
    folds = job.choosing.folds if any(way.bases for way in ways) else NO_FOLDS
    bench = _bench(job, ways, folds, progress=progress, coords=result.coords, on=on)
    return kept({way: bench.fitted(way) for way in ways}, bench, own_fits(result))


def own_fits(result: Calibration) -> dict[Any, Any]:
    """The fits of the run itself, which the choice need not keep: plain, and maybe calibrated."""
    return dict(zip(TWO, result.on_fit.posteriors.values(), strict=False))


def _record(choice: Choice) -> Chosen:
    gain, table = choice.bench.problem.loss is None, choice.table
    others = [e.name for e in choice.entries if e.way.is_yardstick or e is choice.yardstick]
    return Chosen(
        way=choice.chosen,
        base=choice.yardstick.name,
        verdict=choice.verdict,
        folds=choice.bench.splits.title,
        outcomes=len(choice.entries[0].costs),
        gain=gain,
        ways=[
            _row(entry.name, dict(table.loc[entry.name]), -1 if gain else 1)
            for entry in choice.entries
        ],
        saved=[_saved(choice, name) for name in others if name != choice.chosen],
    )


def _row(name: str, row: Mapping[str, Any], sign: int) -> WayRow:
    numbers = ("better_by", "low", "high", "coverage_50", "coverage_90")
    note = row.get("note")
    return WayRow(
        name=name,
        risk=float(sign * row["risk"]),
        seconds=float(row["seconds"]),
        note=note if isinstance(note, str) else "",
        **{each: finite(row.get(each, math.nan)) for each in numbers},
    )


def _saved(choice: Choice, than: str) -> Saved:
    each, low, high = choice.saving(than)
    return Saved(than=than, each=each, low=finite(low), high=finite(high))


def finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@final
@dataclass(frozen=True, eq=False)
class Ways:
    """The ways of a finished run, fitted to all rows of the job, and the one to decide by."""

    job: Job
    result: Calibration
    arrays: Mapping[str, np.ndarray]
    chosen: Chosen | None
    """None where the run has the two fits alone: it then decides by the calibrated one, or by plain
    VI where data cannot judge decisions."""
    _kept: dict[tuple[str, Assessment], np.ndarray] = field(default_factory=dict)
    """Decisions for the rows of the fit, which decisions.csv and the report ask for alike."""
    _forecasts: dict[Assessment, Forecast] = field(default_factory=dict)
    """The same for what is predicted."""

    @property
    def names(self) -> tuple[str, ...]:
        if self.chosen is None:
            return tuple(way.name for way in TWO)
        return tuple(row.name for row in self.chosen.ways)

    def name(self, way: str | None = None) -> str:
        """That of the way to decide by, unless another is asked for."""
        if way is not None:
            return checks.one_of("`--way`", way, self.names)
        if self.chosen is not None:
            return self.chosen.way
        # Nothing can show that calibration helps where data cannot judge decisions.
        return TWO[1 if why_not_judged(self.result.problem) is None else 0].name

    def decide(self, cases: Assessment, way: str | None = None) -> "xr.DataArray":
        """Decisions as users see them."""
        return Ground.of(cases).labels(self.found(cases, way))

    def found(self, cases: Assessment, way: str | None = None) -> np.ndarray:
        """The same decisions as numbers."""
        name = self.name(way)
        if (name, cases) in self._kept:
            return self._kept[name, cases]
        ground = Ground.of(cases)
        if name == TODAY and cases.held_out:
            raise InputError(
                f"`--way {name!r}`: what is done today is known for the rows of the run alone."
            )
        found = self._fitted(name).decide(0, ground)
        # As many digits as the fits have, whatever a correction computes with.
        found = found.astype(jax.dtypes.canonicalize_dtype(float))
        if not cases.held_out:
            self._kept[name, cases] = found
        return found

    def outlook(self, cases: Assessment, decisions: np.ndarray, way: str | None = None) -> Outlook:
        """What a way predicts, and what decisions will cost by that, in the user's unit."""
        return Ground.of(cases).outlook(self._posterior(self.name(way)), decisions)

    def forecast(self, cases: Assessment) -> Forecast:
        """What the way to decide by predicts; plain VI, where it predicts nothing."""
        if cases in self._forecasts:
            return self._forecasts[cases]
        ground = Ground.of(cases)
        found = self._fitted(self.name()).forecast(0, ground)
        if found is None:
            found = ground.forecast(own_fits(self.result)[TWO[0]])
        if not cases.held_out:
            self._forecasts[cases] = found
        return found

    def drawn(self, cases: Assessment) -> np.ndarray:
        """Outcomes that it predicts: draw x instance. Those that forecast and outlook rest on."""
        found = Ground.of(cases).drawn(self._posterior(self.name()))
        return found.reshape(len(found), -1)

    def rules(self, cases: Assessment) -> dict[str, np.ndarray]:
        """What the simple rules of the table decide, beside the way to decide by."""
        known = [name for name in (SAME, TODAY) if name in self.names and name != self.name()]
        if cases.held_out:
            known = [name for name in known if name != TODAY]
        return {name: self.found(cases, name) for name in known}

    def _posterior(self, name: str) -> Posterior:
        """That of a way; plain VI's, where it has none."""
        found = self._fitted(name).posterior(0)
        return own_fits(self.result)[TWO[0]] if found is None else found

    def _fitted(self, name: str) -> Fitted:
        """Made again each time: it remembers all cases that it has decided about."""
        asked = self.job.choosing
        ways = TWO if self.chosen is None or asked is None else asked.ways
        return restored(ways, name, dict(self.arrays), own_fits(self.result))
