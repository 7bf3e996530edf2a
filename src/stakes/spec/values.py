"""From the names in a spec to the library's values, in small tables."""

from collections.abc import Callable
from typing import Any, TypeAlias

from stakes.algorithms import EM, BayesDecisions, Joint, NumericalDecisions
from stakes.expectation import ClosedForm, Enumeration, MonteCarlo, Quadrature
from stakes.losses import Absolute, LinEx, Squared, Tilted
from stakes.spec import schema
from stakes.typing import Loss
from stakes.utilities import Exponential, Linearized, Transform, Utility
from stakes.utility_term import Jensen, Nested, Taylor

TRANSFORMS: dict[str, type[Transform]] = {"linearized": Linearized, "exponential": Exponential}
M_STEPS: dict[str, BayesDecisions | NumericalDecisions] = {
    "bayes": BayesDecisions(),
    "numerical": NumericalDecisions(),
}
ESTIMATORS = {"nested": Nested(), "jensen": Jensen(), "taylor": Taylor()}


Get: TypeAlias = Callable[[str, str], Any]
"""(field of the spec, `file.py:name`) -> what the name stands for."""


def loss(spec: schema.Loss, get: Get) -> Loss:
    match spec.name:
        case "squared":
            return Squared()
        case "absolute":
            return Absolute()
        case "tilted":
            return Tilted(_level(spec))
        case "linex":
            assert spec.c is not None
            return LinEx(spec.c)
        case None:
            assert spec.python is not None
            return get("loss.python", spec.python)


def _level(spec: schema.Loss) -> float:
    """q itself, or from what one unit short and one too many cost."""
    if spec.q is not None:
        return spec.q
    assert spec.under is not None
    assert spec.over is not None
    return spec.under / (spec.under + spec.over)


def utility(spec: schema.Utility, get: Get) -> Utility:
    return Utility(get("utility.python", spec.python), infimum=spec.infimum)


def guide(spec: schema.Guide | None, get: Get) -> Any:
    if spec is None:
        return None
    if spec.python is not None:
        return get("guide.python", spec.python)
    from numpyro.infer import autoguide

    assert spec.name is not None
    return getattr(autoguide, spec.name)


def transform(spec: schema.Transform | None) -> Transform | None:
    if spec is None:
        return None
    return TRANSFORMS[spec.name](quantile=spec.quantile, scale=spec.scale)


def method(spec: schema.Method) -> Joint | EM:
    if spec.name == "joint":
        return Joint()
    given = {"draws": spec.draws, "every": spec.every}
    numbers = {name: value for name, value in given.items() if value is not None}
    return EM(m_step=M_STEPS[spec.m_step] if spec.m_step else None, **numbers)


def expectation(spec: schema.Expectation | None) -> Any:
    match spec.name if spec else None:
        case "closed-form":
            return ClosedForm()
        case "enumeration":
            return Enumeration(points=spec.points if spec else None)
        case "quadrature":
            return Quadrature(points=spec.points if spec else None)
        case "monte-carlo":
            return MonteCarlo(**({"draws": spec.draws} if spec and spec.draws else {}))
    return None


def options(spec: schema.Spec) -> dict[str, Any]:
    """The keyword arguments of `calibrate`."""
    import optax

    rate, estimator = spec.fit.learning_rate, spec.method.estimator
    return {
        "transform": transform(spec.transform),
        "method": method(spec.method),
        "expectation": expectation(spec.expectation),
        "estimator": ESTIMATORS[estimator] if estimator else None,
        "steps": spec.fit.steps,
        "draws": spec.fit.draws,
        "optimizer": optax.adam(rate) if rate else None,
        "warm_start": spec.fit.warm_start,
    }
