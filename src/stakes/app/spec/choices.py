"""From the names in a spec to the library's values, in small tables."""

from collections.abc import Callable
from typing import Any, TypeAlias

from stakes.app.spec.schema import (
    ChooseSection,
    ExpectationSection,
    FoldsSection,
    GuideSection,
    LossSection,
    MethodSection,
    Spec,
    TransformSection,
    UtilitySection,
)
from stakes.calibration import Options
from stakes.deciding import BayesDecisions, NumericalDecisions
from stakes.expectation import ClosedForm, Enumeration, MonteCarlo, Quadrature
from stakes.losses import Absolute, LinEx, Squared, Tilted
from stakes.optimise import EM, Joint, Method, adam
from stakes.problem import Problem
from stakes.protocols import DecisionRule, Estimator, Expectation, Loss, Transform
from stakes.utilities import Exponential, Linearized, Utility
from stakes.utility_estimators import Jensen, Nested, Taylor
from stakes.ways import (
    NUTS,
    STRENGTHS,
    Calibrated,
    Corrected,
    Forward,
    Level,
    Monotone,
    Network,
    Plain,
    Same,
    Shift,
    default_ways,
)

LOSSES: dict[str, Callable[[LossSection], Loss]] = {
    "squared": lambda section: Squared(),
    "absolute": lambda section: Absolute(),
    "tilted": lambda section: Tilted(_level(section)),
    "linex": lambda section: LinEx(section.c or 0.0),
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


def loss(section: LossSection, get: Get) -> Loss:
    if section.python is not None:
        return get("loss.python", section.python)
    assert section.name is not None
    return LOSSES[section.name](section)


def _level(section: LossSection) -> float:
    """q itself, or found from the costs of one unit short and one too many."""
    if section.q is not None:
        return section.q
    assert section.under is not None
    assert section.over is not None
    return section.under / (section.under + section.over)


def unit(section: LossSection | None) -> float:
    """What a loss of one costs: a tilted loss has costs that add up to one."""
    if section is None or section.under is None or section.over is None:
        return 1.0
    return section.under + section.over


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


def method(section: MethodSection) -> Method:
    if section.name == "joint":
        return Joint()
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
