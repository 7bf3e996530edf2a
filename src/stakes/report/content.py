"""From a calibration to the content of its report: plain values, a dataclass for each section."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from stakes import checks
from stakes.errors import InputError
from stakes.predicting import SampledPosterior
from stakes.problem import Problem
from stakes.report.actions import ActionTable, action_table
from stakes.report.answers import answer, quality
from stakes.report.convergence import Convergence, Price, convergence, price
from stakes.report.decision_table import Decisions, decision_table
from stakes.report.expected import curve
from stakes.report.movement import Movement, moved_latents
from stakes.report.pictures import METHODS
from stakes.report.rows import Rows
from stakes.report.what_if import Curve, WhatIf, what_if
from stakes.report.worth import Quality, Recommendation, Worth
from stakes.study import NOT_CALIBRATED, Calibration, Cases, Comparison, why_not_judged


@final
@dataclass(frozen=True)
class Risk:
    """What the decisions of one method cost, and how much less that is than plain VI's."""

    method: str
    value: float
    """Mean loss; mean utility where the problem is given by one."""
    reduction: float | None = None
    interval: tuple[float, float] | None = None


@final
@dataclass(frozen=True)
class Verdict:
    """Did calibration help?"""

    sentence: str
    tone: str
    """`better`, `worse` or `unclear`."""
    quantity: str
    """`risk`, or `gain` for a utility."""
    risks: tuple[Risk, ...]
    instances: int
    held_out: bool
    setting: str
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Origin:
    """Where the report comes from, and how to make it again."""

    provenance: Mapping[str, str] = field(default_factory=dict)
    """What the result was made from, such as versions, seed and hashes."""
    command: str | None = None
    """The command that makes this report again."""
    program: str | None = None
    """The Python program that makes this report again."""

    def __post_init__(self) -> None:
        where = "`Origin({}=...)`".format
        rule = "a mapping from names to text"
        checks.instance(where("provenance"), self.provenance, Mapping, rule)
        for text in (*self.provenance.keys(), *self.provenance.values()):
            checks.text(where("provenance"), text)
        for name, written in (("command", self.command), ("program", self.program)):
            if written is not None:
                checks.text(where(name), written)


@final
@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page."""

    title: str
    loss: str
    verdict: Verdict
    decisions: Decisions
    what_if: WhatIf | None
    """None where the loss has no parameter to vary."""
    movement: Movement
    convergence: Convergence
    price: Price | None
    """None where plain VI is the only fit."""
    origin: Origin
    answer: Recommendation
    quality: Quality | None
    """None where no outcomes were observed."""
    worth: Worth | None = None
    """None where there was no choice among ways."""
    unit: str | None = None
    """What costs are counted in."""
    actions: ActionTable | None = None
    """None where decisions are no actions of a table of costs, or no outcomes came."""
    curve: Curve | None = None
    """None where decisions do not change outcomes."""


def summarise(
    result: Calibration,
    *,
    title: str,
    held_out: Cases | None = None,
    nuts: int | None = None,
    rows: Sequence[Rows] | None = None,
    worth: Worth | None = None,
    unit: str | None = None,
    origin: Origin | None = None,
) -> Report:
    """Everything that the report says about a calibration.

    Args:
        title: of the page.
        held_out: `result.assess(...)` of data with observed outcomes, to judge the decisions and
            the coverage by; by default the data of the fit.
        nuts: also compare with this many draws of NUTS.
        rows: the cases in the decision table, part by part, with what is decided about them and
            labels that tell them apart; the first part has the decisions to take. By default the
            cases of the fit, and those held out.
        worth: what the decisions of the way that was chosen are worth.
        unit: what costs are counted in, such as "€".
        origin: where the report comes from, and how to make it again.
    """
    where = "`summarise({}=...)`".format
    checks.instance(where("result"), result, Calibration, "what `calibrate(...)` returns")
    reason = unfit(result.problem)
    if reason is not None:
        raise InputError(reason)
    checks.text(where("title"), title)
    for name, given, kind, rule in (
        ("held_out", held_out, Cases, "what `result.assess(data)` returns"),
        ("worth", worth, Worth, "a `Worth(...)` of the report"),
        ("origin", origin, Origin, "an `Origin(...)` of the report"),
    ):
        if given is not None:
            checks.instance(where(name), given, kind, rule)
    if unit is not None:
        checks.text(where("unit"), unit)
    nuts = None if nuts is None else checks.whole(where("nuts"), nuts)
    parts = [Rows("fit", result.on_fit)] if rows is None else _checked(where("rows"), rows)
    if rows is None and held_out is not None:
        parts = [Rows("held out", held_out), *parts]
    cases = result.on_fit if held_out is None else held_out
    judged = next(part for part in parts if part.cases is cases)
    gain = result.problem.loss is None
    sampled = None if nuts is None else result.nuts(nuts)
    return Report(
        title=title,
        loss=result.problem.criterion.title,
        verdict=_verdict(cases, sampled),
        decisions=decision_table(parts, gain=gain),
        what_if=what_if(parts[0]),
        movement=moved_latents(result, sampled),
        convergence=convergence(result),
        price=price(result, cases, covered=worth is None) if "LCVI" in result.fits else None,
        origin=origin or Origin(),
        answer=answer(parts[0], gain=gain, unit=unit),
        quality=quality(judged, worth, unseen=cases.held_out, gain=gain, unit=unit),
        worth=worth,
        unit=unit,
        actions=action_table(judged),
        curve=curve(result, parts[0]),
    )


def unfit(problem: Problem) -> str | None:
    """Why there is no report about such decisions; None where there is."""
    return problem.why_not_single("A report")


def _checked(where: str, rows: object) -> list[Rows]:
    if not isinstance(rows, Sequence) or not rows:
        raise checks.refused(where, "a list of `Rows(...)`, at least one", rows)
    for part in rows:
        checks.instance(where, part, Rows, "a list of `Rows(...)`")
    return list(rows)


def _verdict(cases: Cases, sampled: SampledPosterior | None) -> Verdict:
    if why_not_judged(cases.problem) is not None:
        return _unjudged(cases)
    comparison = cases.comparison if sampled is None else cases.compared(sampled)
    return verdict(comparison) if "LCVI" in comparison.risk else _unjudged(cases)


def verdict(comparison: Comparison) -> Verdict:
    """Whether calibration helped, by what decisions cost."""
    low, high = comparison.interval
    tone = "better" if low > 0 else "worse" if high < 0 else "unclear"
    sign = -1.0 if comparison.gain else 1.0
    reductions, intervals = comparison.reductions, comparison.intervals
    return Verdict(
        sentence=comparison.verdict,
        tone="unclear" if comparison.notes else tone,
        quantity="gain" if comparison.gain else "risk",
        risks=tuple(
            Risk(method, sign * risk, reductions.get(method), intervals.get(method))
            for method, risk in comparison.risk.items()
        ),
        instances=comparison.instances,
        held_out=comparison.held_out,
        setting=comparison.setting,
        notes=_unreliable(comparison.notes),
    )


def _unjudged(cases: Cases) -> Verdict:
    """Where data cannot say how good decisions have been, or there is nothing to compare with."""
    problem = cases.problem
    reason, sentence, setting = why_not_judged(problem), NOT_CALIBRATED, f"{problem!r}."
    if reason is not None:
        sentence = f"{reason} Plain VI decides: nothing shows that calibration helps."
        setting = f"{problem!r}; {cases.setting}."
    return Verdict(
        sentence=sentence,
        tone="unclear",
        quantity="gain" if problem.loss is None else "risk",
        risks=(),
        instances=int(np.prod(cases.instances.shape)),
        held_out=cases.held_out,
        setting=setting,
        notes=_unreliable(cases.unconverged),
    )


def _unreliable(notes: Sequence[str]) -> tuple[str, ...]:
    """What it means to a reader that fits had not converged."""
    if not notes:
        return ()
    return (
        f"Do not rely on the figures on this page yet. A fit looks step by step for what suits the "
        f"data best, and here it stopped before it had found that "
        f"({'; '.join(map(_in_words, notes))}): with more steps, decisions and costs may change. "
        f"Allow twice as many or more, with steps = … under [fit] in the spec or steps= in Python, "
        f"and run again.",
    )


def _in_words(note: str) -> str:
    """A note such as `VI: why it ended.`, with the page's name of the method."""
    name = note.partition(" ")[0].rstrip(":")
    return METHODS.get(name, name) + note[len(name) :].rstrip(".")
