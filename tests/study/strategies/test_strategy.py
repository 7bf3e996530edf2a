"""Laws of strategies: each is fitted once, kept as plain arrays, and restored from these."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import AutoMultivariateNormal

import stakes
from stakes.study import (
    CalibrationMap,
    Cases,
    Corrected,
    Diagnosis,
    FittedStrategy,
    Options,
    Strategy,
    Study,
    Work,
    chosen_among,
    enter,
)
from stakes.study import fits as fitting
from stakes.study.folds import Mask

ROWS = 120


def biased(x: Any, y: Any = None) -> None:
    """Has no level, so that every calibration map has something to correct."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    tilt = numpyro.sample("tilt", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x + tilt * x**2, 1), obs=y)


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    return {"x": jnp.asarray(x), "y": jnp.asarray(3 + x + rng.normal(size=ROWS))}


PROBLEM = stakes.Problem(biased, outcome="y", loss=stakes.Tilted(0.8))
OTHER = {"x": jnp.linspace(-1, 1, 5), "y": None}


@dataclass(frozen=True)
class Above(Strategy):
    """One of the user's own: so much above the largest outcome that it has seen."""

    margin: float = 1.0

    is_baseline: ClassVar[bool] = False
    bases: ClassVar[tuple[Any, ...]] = ()
    name: ClassVar[str] = "above all"
    description: ClassVar[str] = "more than there ever was"

    def check(self, study: Study) -> None: ...

    def fit(self, study: Study, mask: Mask) -> FittedStrategy:
        return Fixed(float(study.seen.outcomes[mask.seen].max()) + self.margin)

    def restore(self, study: Study, arrays: Mapping[str, np.ndarray]) -> FittedStrategy:
        return Fixed(float(arrays["value"]))


@dataclass(frozen=True)
class Fixed:
    value: float
    seconds: ClassVar[float] = 0.0
    diagnosis: ClassVar[Diagnosis] = Diagnosis()
    posterior: ClassVar[None] = None

    def decide(self, cases: Cases) -> np.ndarray:
        return np.full(cases.instances.shape, self.value)

    def predict(self, cases: Cases) -> None: ...

    def arrays(self) -> dict[str, np.ndarray]:
        return {"value": np.array(self.value)}


MAPS: list[CalibrationMap] = [
    stakes.Shift(),
    stakes.Level(),
    stakes.Monotone(),
    stakes.Network(width=4, epochs=100),
]
STRATEGIES: list[Strategy] = [
    stakes.Plain(),
    stakes.Plain(guide=AutoMultivariateNormal),
    stakes.Calibrated(),
    stakes.Calibrated(strength=4),
    stakes.Calibrated(guide=AutoMultivariateNormal),
    stakes.NUTS(draws=50, warmup=50),
    stakes.Reweighted(stakes.Plain(), draws=300),
    *(Corrected(stakes.Plain(), head) for head in MAPS),
    Corrected(stakes.Calibrated(), stakes.Shift()),
    stakes.Same(),
    stakes.Given(np.arange(ROWS)),
    Above(),
]


def study_in(folds: int | None = 2) -> Study:
    options = Options(steps=300)
    return Study(
        jax.random.key(0), PROBLEM, data(), options, folds=folds, work=Work(progress=False)
    )


@pytest.fixture(scope="module")
def study() -> Study:
    study = study_in()
    enter(study, STRATEGIES)
    return study


@pytest.fixture(scope="module")
def later() -> Study:
    """The same problem in another program, in which nothing is fitted."""
    return study_in(folds=None)


@pytest.fixture(scope="module")
def cases(study: Study, later: Study) -> list[tuple[Cases, Cases]]:
    """Those of the fit, and others, in both."""
    plans = [(each.plan, each.keys) for each in (study, later)]
    new = (plan.cases(keys, plan.read(OTHER)) for plan, keys in plans)
    return [(study.home, later.home), tuple(new)]


# Those with another guide, and with another strength, are kept as the same without.
SLOW = (STRATEGIES[3], STRATEGIES[4])


@pytest.mark.parametrize(
    "strategy",
    [pytest.param(s, marks=[pytest.mark.slow] * (s in SLOW), id=s.name) for s in STRATEGIES],
)
def test_a_strategy_restored_from_its_arrays_decides_and_predicts_the_same(
    strategy: Strategy,
    study: Study,
    later: Study,
    cases: list[tuple[Cases, Cases]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = study.fitted(strategy, study.everything)
    arrays = fitted.arrays()
    assert not any(array.dtype.hasobject for array in arrays.values())
    if isinstance(strategy, Corrected):
        assert any(name.startswith("map/") for name in arrays)
    for name in ("run", "run_apart"):
        monkeypatch.setattr(fitting, name, pytest.fail)
    again = strategy.restore(later, arrays)
    assert again.arrays().keys() == arrays.keys()
    # What is done today is known for the rows of the fit alone.
    for before, after in cases[:1] if isinstance(strategy, stakes.Given) else cases:
        np.testing.assert_array_equal(again.decide(after), fitted.decide(before))
        for mine, its in zip(again.predict(after) or (), fitted.predict(before) or (), strict=True):
            np.testing.assert_array_equal(mine, its)


def test_each_fit_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands on it: others are corrected, reweighted, or have another strength."""
    made: list[str] = []
    run, run_apart = fitting.run, fitting.run_apart

    def alone(title: str, *args: Any, **options: Any) -> Any:
        made.append(title)
        return run(title, *args, **options)

    def together(title: str, batches: Any, client: Any) -> Any:
        made.extend(batch.title for batch in batches)
        return run_apart(title, batches, client)

    monkeypatch.setattr(fitting, "run", alone)
    monkeypatch.setattr(fitting, "run_apart", together)
    plain, calibrated = stakes.Plain(), stakes.Calibrated()
    ways = [
        plain,
        calibrated,
        stakes.Calibrated(strength=4),
        Corrected(plain, stakes.Shift()),
        Corrected(calibrated, stakes.Level()),
        stakes.Reweighted(plain, draws=300),
        stakes.Same(),
    ]
    study = study_in()
    enter(study, ways)
    choice = chosen_among(study, ways)
    assert made == [
        "VI, 2 folds and all",
        "calibrated, 2 folds and all, strength 1",
        "calibrated, 2 folds and all, strength 4",
    ]
    for strategy in ways:
        assert choice.fitted(strategy.name) is choice.fitted(strategy.name)
        choice.fitted(strategy.name).decide(study.home)
    assert choice.decisions.shape == (ROWS,)
    assert len(made) == 3
