"""From the names in a spec to the library's values, in small tables."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from stakes.app.spec.costs import DecisionSection, LossSection, SpaceSection, UtilitySection
from stakes.app.spec.schema import (
    ChooseSection,
    ExpectationSection,
    FoldsSection,
    GuideSection,
    MethodSection,
    Spec,
    TransformSection,
)
from stakes.decisions import BayesDecisions, NumericalDecisions
from stakes.errors import InputError, some
from stakes.expectation import ClosedForm, Enumeration, MonteCarlo, Quadrature
from stakes.fitting import EM, Joint, Method, adam
from stakes.losses import (
    Absolute,
    CostTable,
    Expectile,
    Huber,
    IntervalScore,
    LinEx,
    Newsvendor,
    Squared,
    Tilted,
    ZeroOne,
)
from stakes.problem import Problem
from stakes.protocols import DecisionRule, Estimator, Expectation, Loss, Space, Transform
from stakes.spaces import Integers, Interval, OneOf, Real, Vector
from stakes.study import (
    NUTS,
    STRENGTHS,
    Calibrated,
    Corrected,
    Forward,
    Level,
    Monotone,
    Network,
    Options,
    Plain,
    Same,
    Shift,
    default_ways,
)
from stakes.utilities import Exponential, Linearized, Utility
from stakes.utility_estimators import Jensen, Nested, Taylor

LOSSES: dict[str, Callable[[LossSection], Any]] = {
    "squared": lambda section: Squared(),
    "absolute": lambda section: Absolute(),
    "tilted": lambda section: _tilted(section),
    "newsvendor": lambda section: Newsvendor(section.under, section.over),
    "linex": lambda section: LinEx(section.c or 0.0),
    "expectile": lambda section: Expectile(section.q),
    "huber": lambda section: Huber(section.delta),
    "zero-one": lambda section: ZeroOne(section.width or 0.0),
    "interval-score": lambda section: IntervalScore(section.level or 0.0),
}
SPACES: dict[str, Callable[[SpaceSection], Space]] = {
    "real": lambda section: Real(),
    "interval": lambda section: Interval(section.low, section.high),
    "whole": lambda section: Integers(section.low, section.high),
    "actions": lambda section: OneOf(section.actions or []),
}
EXPECTATIONS: dict[str, Callable[..., Expectation]] = {
    "closed-form": ClosedForm,
    "enumeration": Enumeration,
    "quadrature": Quadrature,
    "monte-carlo": MonteCarlo,
}
TRANSFORMS: dict[str, type[Linearized | Exponential]] = {
    "linearized": Linearized,
    "exponential": Exponential,
}
M_STEPS: dict[str, DecisionRule] = {"bayes": BayesDecisions(), "numerical": NumericalDecisions()}
ESTIMATORS: dict[str, Estimator] = {"nested": Nested(), "jensen": Jensen(), "taylor": Taylor()}

WAYS: dict[str, Any] = {
    "plain": Plain(),
    "shift": Corrected(Plain(), Shift()),
    "level": Corrected(Plain(), Level()),
    "monotone": Corrected(Plain(), Monotone()),
    "network": Corrected(Plain(), Network()),
    "nuts": NUTS(),
    "same": Same(),
}
"""Calibrated ones have a strength each."""

Get: TypeAlias = Callable[[str, str], Callable[..., Any]]
"""(field of the spec, `file.py:name`) -> what the name stands for."""


def loss(section: LossSection, get: Get, folder: Path) -> Loss:
    if section.python is not None:
        return get("loss.python", section.python)
    assert section.name is not None
    if section.name == "table":
        costs = section.costs if section.file is None else costs_in(folder / section.file)
        return CostTable(costs, section.bins)
    found: Loss = LOSSES[section.name](section)
    return found


def costs_in(path: Path) -> dict[str, list[float | str]]:
    """A row for each action: its label, and its cost for each class; the first row is a header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            _, *rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table of costs: {error}.") from None
    labels = [row[0].strip() for row in rows]
    if len(set(labels)) != len(labels):
        raise InputError(f"{path} has an action more than once: {some(labels)}.")
    return {row[0].strip(): [_number_or_name(cell) for cell in row[1:]] for row in rows}


def _number_or_name(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell.strip()


def space(section: DecisionSection) -> Space | dict[str, Space] | None:
    """As `Problem(decision=...)` takes it; None where only the spec's other parts say."""
    if section.parts is not None:
        return Vector(**{name: _alone(part) for name, part in section.parts.items()})
    if section.argument is not None:
        return {section.argument: _alone(section)}
    return None if section.space in (None, "real") else _alone(section)


def _alone(section: SpaceSection) -> Space:
    return SPACES[section.space or "real"](section)


def _tilted(section: LossSection) -> Loss:
    """By its level q; costs of one unit short and one too many stay what they are."""
    return Newsvendor(section.under, section.over) if section.q is None else Tilted(section.q)


def ways(section: ChooseSection, problem: Problem) -> list[Any]:
    strengths = section.strengths or (STRENGTHS if problem.loss is not None else (1.0,))
    calibrated = [Calibrated(strength=float(strength)) for strength in strengths]
    if section.ways is None:
        others = [way for way in default_ways(problem) if not isinstance(way, Calibrated)]
        return [others[0], *calibrated, *others[1:]]
    listed = [calibrated if name == "calibrated" else [WAYS[name]] for name in section.ways]
    return [way for each in listed for way in each]


def folds(section: FoldsSection) -> int | Forward:
    if section.forward is None:
        assert section.random is not None
        return section.random
    return Forward(section.forward, 0.5 if section.start is None else section.start)


def utility(section: UtilitySection, get: Get) -> Utility:
    return Utility(get("utility.python", section.python), infimum=section.infimum)


def guide(section: GuideSection, get: Get) -> Callable[..., Any]:
    if section.python is not None:
        return get("guide.python", section.python)
    from numpyro.infer import autoguide

    assert section.name is not None
    found: Callable[..., Any] = getattr(autoguide, section.name)
    return found


def transform(section: TransformSection | None) -> Transform | None:
    if section is None:
        return None
    known = TRANSFORMS[section.name]
    return known(quantile=section.quantile, scale=section.scale, regret=section.regret)


def method(section: MethodSection) -> Method | None:
    if section.name != "em":
        return None if section.name is None else Joint()
    given = {"draws": section.draws, "every": section.every}
    numbers = {name: value for name, value in given.items() if value is not None}
    return EM(m_step=M_STEPS[section.m_step] if section.m_step else None, **numbers)


def expectation(section: ExpectationSection | None) -> Expectation | None:
    if section is None:
        return None
    size = section.points if section.draws is None else section.draws
    known = EXPECTATIONS[section.name]
    return known() if size is None else known(size)


def options(spec: Spec) -> Options:
    rate, estimator = spec.fit.learning_rate, spec.method.estimator
    return Options(
        transform=transform(spec.transform),
        method=method(spec.method),
        expectation=expectation(spec.expectation),
        estimator=ESTIMATORS[estimator] if estimator else None,
        steps=spec.fit.steps,
        draws=spec.fit.draws,
        optimizer=adam(rate) if rate else None,
        warm_start=spec.fit.warm_start,
    )
