"""Calibration maps: corrections of a base's decisions, by what then happened."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import stakes
from stakes.errors import StorageError
from stakes.losses import AnyLoss
from stakes.study import LEVELS, CalibrationMap, Identity, MapInputs, Network
from stakes.study.strategies import network
from stakes.study.strategies.maps import (
    Blocks,
    Level,
    LevelMap,
    Line,
    Monotone,
    Regressor,
    Shift,
    quantiles_at,
)

KEY = jax.random.key(3)
TILTED = AnyLoss(stakes.Tilted(0.8))
SQUARED = AnyLoss(stakes.Squared())


@dataclass
class LeastSquares:
    """A regressor as a user may bring one."""

    columns: int | None = None
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def fit(self, X: np.ndarray, y: np.ndarray) -> "LeastSquares":  # noqa: N803
        self.columns = X.shape[1]
        self.weights = np.linalg.lstsq(self._with_one(X), y)[0]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        return self._with_one(X) @ self.weights

    def _with_one(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        return np.column_stack([X, np.ones(len(X))])


def hit(outcome: Any, decision: Any) -> Any:
    """One, unless the decision is within three of the outcome: it jumps, and is flat otherwise."""
    return jnp.where(jnp.abs(outcome - decision) < 3, 0.0, 1.0)


SIMPLE: dict[str, CalibrationMap] = {"shift": Shift(), "level": Level(), "monotone": Monotone()}
HEADS: dict[str, CalibrationMap] = {
    **SIMPLE,
    "network": Network(width=8),
    "regressor": Regressor(LeastSquares()),
}
CRITERIA = {"tilted": TILTED, "squared": SQUARED, "hit": AnyLoss(hit)}


def predicted(mean: np.ndarray, deviation: np.ndarray, decisions: np.ndarray) -> MapInputs:
    return MapInputs(decisions, mean[:, None] + deviation[:, None] * ndtri(LEVELS))


def biased(rows: int, seed: int = 0) -> tuple[MapInputs, np.ndarray]:
    """A base whose decisions are too low, too far apart, and too sure of themselves."""
    rng = np.random.default_rng(seed)
    mean, deviation = 2 * rng.normal(size=rows), np.exp(0.3 * rng.normal(size=rows))
    outcomes = 1 + 0.6 * mean + 2 * deviation * rng.normal(size=rows)
    return predicted(mean, deviation, mean + deviation * ndtri(0.8)), outcomes


def cost(criterion: Any, outcomes: np.ndarray, decisions: np.ndarray) -> float:
    return float(criterion.cost(jnp.asarray(outcomes), jnp.asarray(decisions)).mean())


@pytest.mark.parametrize(
    ("head", "criterion"),
    [(Level(), TILTED), *itertools.product((Shift(), Monotone()), CRITERIA.values())],
)
def test_a_head_lowers_the_cost_of_a_biased_base_also_on_other_rows(
    head: CalibrationMap, criterion: Any
) -> None:
    shown, outcomes = biased(500)
    other, later = biased(2000, seed=1)
    fitted = head.fit(KEY, shown, outcomes, criterion)
    assert cost(criterion, outcomes, fitted.decide(shown)) < cost(
        criterion, outcomes, shown.decisions
    )
    before, after = (cost(criterion, later, d) for d in (other.decisions, fitted.decide(other)))
    assert after < 0.97 * before


@pytest.mark.parametrize("head", SIMPLE.values(), ids=SIMPLE)
@pytest.mark.parametrize("rows", [0, 1, 19, 40])
def test_a_head_never_costs_more_than_its_base_on_the_rows_shown(
    head: CalibrationMap, rows: int
) -> None:
    for seed, criterion in itertools.product(range(2), CRITERIA.values()):
        rng = np.random.default_rng(seed)
        mean = rng.normal(size=rows).round(1)
        shown = predicted(mean, np.ones(rows), mean)
        outcomes = mean + rng.standard_t(2, size=rows)
        decided = head.fit(KEY, shown, outcomes, criterion).decide(shown)
        assert decided.shape == (rows,)
        assert np.isfinite(decided).all()
        if rows:
            now, before = (cost(criterion, outcomes, d) for d in (decided, mean))
            assert now <= before


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_predictions_and_outcomes_that_do_not_vary_are_no_difficulty(head: CalibrationMap) -> None:
    shown = MapInputs(np.zeros(40), np.zeros((40, len(LEVELS))))
    decided = head.fit(KEY, shown, np.full(40, 3.0), TILTED).decide(shown)
    assert np.isfinite(decided).all()
    assert cost(TILTED, np.full(40, 3.0), decided) <= cost(TILTED, np.full(40, 3.0), np.zeros(40))
    same = head.fit(KEY, shown, np.zeros(40), TILTED).decide(shown)
    np.testing.assert_allclose(same, 0.0, atol=1e-12)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_decisions_go_with_their_rows_and_do_not_depend_on_the_others(head: CalibrationMap) -> None:
    shown, outcomes = biased(40)
    fitted = head.fit(KEY, shown, outcomes, TILTED)
    order = np.random.default_rng(0).permutation(40)[:17]
    some = MapInputs(shown.decisions[order], shown.quantiles[order])
    np.testing.assert_allclose(fitted.decide(some), fitted.decide(shown)[order], rtol=1e-9)
    none = MapInputs(np.zeros(0), np.zeros((0, len(LEVELS))))
    assert fitted.decide(none).shape == (0,)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_the_same_key_gives_the_same_decisions(head: CalibrationMap) -> None:
    shown, outcomes = biased(40)
    first, second = (head.fit(KEY, shown, outcomes, TILTED).decide(shown) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_key_of_the_old_kind_serves_as_well() -> None:
    shown, outcomes = biased(40)
    old, new = (
        head.fit(key, shown, outcomes, TILTED).decide(shown)
        for head, key in ((Shift(), jax.random.PRNGKey(3)), (Shift(), KEY))
    )
    np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("head", SIMPLE.values(), ids=SIMPLE)
def test_a_correction_may_lead_away_from_where_the_cost_is_undefined(head: CalibrationMap) -> None:
    def positive(outcome: Any, decision: Any) -> Any:
        return jnp.square(jnp.log(decision) - jnp.log(outcome))

    mean = np.linspace(-0.5, 5, 60)
    outcomes = mean + 2 + 0.1 * np.sin(np.arange(60))
    shown = predicted(mean, np.ones(60), mean)
    decided = head.fit(KEY, shown, outcomes, AnyLoss(positive)).decide(shown)
    assert cost(AnyLoss(positive), outcomes, decided) < 0.1


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_the_unit_of_the_outcome_does_not_matter(head: CalibrationMap) -> None:
    shown, outcomes = biased(40)
    scaled = MapInputs(64 * shown.decisions, 64 * shown.quantiles)
    in_units = head.fit(KEY, shown, outcomes, TILTED).decide(shown)
    in_others = head.fit(KEY, scaled, 64 * outcomes, TILTED).decide(scaled)
    np.testing.assert_allclose(in_others / 64, in_units, atol=0.02)


BAD: dict[str, tuple[Callable[[MapInputs, np.ndarray], tuple[Any, Any]], str]] = {
    "no MapInputs": (lambda s, y: (tuple(s), y), r"`inputs` must be a `MapInputs"),
    "nan outcome": (lambda s, y: (s, np.where(y > 0, np.nan, y)), r"`outcomes` must be finite"),
    "too few outcomes": (lambda s, y: (s, y[1:]), r"`outcomes` must have one .*\(40,\).*\(39,\)"),
    "text": (lambda s, y: (s, y.astype(str)), r"`outcomes` must be an array of numbers"),
    "inf decision": (
        lambda s, y: (s._replace(decisions=s.decisions + np.inf), y),
        r"`inputs.decisions` must be finite; 40 of 40",
    ),
    "too few levels": (
        lambda s, y: (s._replace(quantiles=s.quantiles[:, 1:]), y),
        r"`inputs.quantiles` must have .* shape \(40, 21\); got shape \(40, 20\)",
    ),
    "falling quantiles": (
        lambda s, y: (s._replace(quantiles=s.quantiles[:, ::-1]), y),
        r"`inputs.quantiles` must not fall .* in row 0",
    ),
    "nan covariate": (
        lambda s, y: (s._replace(covariates=np.full((40, 2), np.nan)), y),
        r"`inputs.covariates` must be finite",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_what_cannot_be_used_is_refused(head: CalibrationMap, make: Any, message: str) -> None:
    shown, outcomes = make(*biased(40))
    with pytest.raises(stakes.InputError, match=message):
        head.fit(KEY, shown, outcomes, TILTED)


KEPT = {**SIMPLE, "network": Network(width=8, epochs=100)}


@pytest.mark.parametrize("head", KEPT.values(), ids=KEPT)
def test_a_map_comes_back_from_plain_numbers(head: CalibrationMap) -> None:
    shown, outcomes = biased(2000)
    few = MapInputs(shown.decisions[:1], shown.quantiles[:1])
    unchanged = head.fit(KEY, few, outcomes[:1], TILTED)
    changed = head.fit(KEY, shown, outcomes, TILTED)
    assert isinstance(unchanged, Identity)
    assert not isinstance(changed, Identity)
    for fitted in (unchanged, changed):
        arrays = fitted.arrays()
        assert not any(array.dtype.hasobject for array in arrays.values())
        again = head.restore(arrays)
        assert type(again) is type(fitted)
        np.testing.assert_array_equal(again.decide(shown), fitted.decide(shown))
        if len(arrays) > 1:
            with pytest.raises(StorageError, match="lacks"):
                head.restore(dict(list(arrays.items())[:-1]))


def test_a_fitted_regressor_cannot_be_kept_and_says_so() -> None:
    head, (shown, outcomes) = Regressor(LeastSquares()), biased(500)
    fitted = head.fit(KEY, shown, outcomes, SQUARED)
    refused = r"`Regressor\(estimator=LeastSquares\)` cannot be kept as plain numbers"
    with pytest.raises(stakes.InputError, match=refused):
        fitted.arrays()
    with pytest.raises(stakes.InputError, match=refused):
        head.restore({"weights": np.zeros(3)})
    assert head.restore(Identity().arrays()) == Identity()


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_loss_is_no_criterion(head: CalibrationMap) -> None:
    with pytest.raises(stakes.InputError, match="`criterion` must be"):
        head.fit(KEY, *biased(40), stakes.Tilted(0.8))  # type: ignore[arg-type]


def test_levels_rise_symmetrically_and_are_denser_in_the_tails() -> None:
    levels = np.array(LEVELS)
    np.testing.assert_allclose(levels + levels[::-1], 1.0)
    steps = np.diff(levels)
    assert (steps > 0).all()
    assert (np.diff(steps[: len(steps) // 2]) >= -1e-12).all()


def test_a_quantile_between_the_levels_is_exact_for_a_normal() -> None:
    shown = predicted(np.array([0.0, 5.0]), np.array([1.0, 3.0]), np.zeros(2))
    for level in (0.01, 0.013, 0.5, 0.62, 0.9899, 0.99):
        exact = norm(np.array([0.0, 5.0]), np.array([1.0, 3.0])).ppf(level)
        np.testing.assert_allclose(quantiles_at(shown.quantiles, level), exact, atol=1e-12)


def test_shift_finds_the_regression_line_for_the_squared_loss() -> None:
    rng = np.random.default_rng(0)
    base = 100 + 2 * rng.normal(size=1000)
    outcomes = 103 + 0.6 * (base - 100) + 0.1 * rng.normal(size=1000)
    found = Shift().fit(KEY, predicted(base, np.ones(1000), base), outcomes, SQUARED)
    assert isinstance(found, Line)
    slope, intercept = np.polyfit(base, outcomes, 1)
    assert found.slope == pytest.approx(slope, abs=0.003)
    at_centre = found.centre + found.shift
    assert at_centre == pytest.approx(intercept + slope * found.centre, abs=0.02)


def test_level_makes_up_for_a_base_that_is_too_sure() -> None:
    """Outcomes spread twice as far as predicted: the 0.8-quantile lies where Φ(2 Φ⁻¹(0.8)) is."""
    mean = np.zeros(1001)
    outcomes = 2 * ndtri((np.arange(1001) + 0.5) / 1001)
    shown = predicted(mean, np.ones(1001), np.full(1001, ndtri(0.8)))
    found = Level().fit(KEY, shown, outcomes, TILTED)
    assert isinstance(found, LevelMap)
    assert found.level == pytest.approx(ndtr(2 * ndtri(0.8)), abs=2e-3)


@pytest.mark.parametrize("seed", range(20))
def test_offsets_of_blocks_are_the_best_of_all_that_keep_them_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres, offsets = np.sort(rng.normal(size=4)), np.sort(rng.normal(size=5))
    table = rng.normal(size=(4, 5))
    found = Blocks(np.zeros(0), centres).best(table, offsets)

    def total(places: Any) -> float:
        in_order = (np.diff(centres + offsets[list(places)]) >= 0).all()
        return float(table[np.arange(4), list(places)].sum()) if in_order else np.inf

    best = min(itertools.product(range(5), repeat=4), key=total)
    np.testing.assert_array_equal(found.by, offsets[list(best)])


@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
def test_monotone_keeps_the_order_of_decisions(criterion: Any) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 30, size=400) / 3.0
    outcomes = 5 + 3 * np.sin(base) + rng.normal(size=400)
    fitted = Monotone().fit(KEY, predicted(base, np.ones(400), base), outcomes, criterion)
    grid = np.linspace(-5, 15, 500)
    decided = fitted.decide(predicted(grid, np.ones(500), grid))
    assert (np.diff(decided) >= -1e-9).all()
    assert not isinstance(fitted, Identity)


def test_blocks_are_never_small_whatever_the_ties() -> None:
    rng = np.random.default_rng(0)
    for decisions in (np.r_[np.zeros(300), rng.normal(size=60)], rng.poisson(0.3, 400) * 1.0):
        for count in (1, 2, 8, 32):
            blocks = Blocks.of(decisions, count)
            assert np.bincount(blocks.of_row).min() >= 20
            assert len(blocks.centres) == blocks.of_row.max() + 1 <= count
            assert (np.diff(blocks.centres) > 0).all()


def test_monotone_bends_where_a_line_cannot() -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(-3, 3, size=2000)
    outcomes = np.maximum(base, 0.0) + 0.3 * rng.normal(size=2000)
    shown = predicted(base, np.ones(2000), base)
    line, bent = (head.fit(KEY, shown, outcomes, SQUARED) for head in (Shift(), Monotone()))
    best = np.maximum(base, 0.0)
    assert cost(SQUARED, best, bent.decide(shown)) < 0.005
    assert cost(SQUARED, best, line.decide(shown)) > 0.1


def test_a_network_sees_what_a_line_cannot_and_uses_it() -> None:
    """The right decision is one predictive deviation above the base's, whatever that is."""
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(size=(2, 40))
    deviation = np.exp(deviation)
    outcomes = mean + deviation * (1 + 0.1 * rng.normal(size=40))
    shown = predicted(mean, deviation, mean)
    decided = Network(width=8).fit(KEY, shown, outcomes, TILTED).decide(shown)
    right = mean + deviation
    line = Shift().fit(KEY, shown, outcomes, TILTED).decide(shown)
    before, after = (np.abs(decisions - right).mean() for decisions in (line, decided))
    assert after < before / 2


def test_a_network_compiles_once_for_folds_of_about_the_same_size() -> None:
    shown, outcomes = biased(40)
    Network(width=8).fit(KEY, shown, outcomes, TILTED)
    before = network._train._cache_size()
    fewer = MapInputs(shown.decisions[:-1], shown.quantiles[:-1])
    Network(width=8).fit(KEY, fewer, outcomes[:-1], TILTED)
    assert network._train._cache_size() == before


@pytest.mark.parametrize("head", [Network(covariates="day"), Regressor(LeastSquares(), "day")])
def test_covariates_that_a_head_asks_for_must_be_there(head: CalibrationMap) -> None:
    assert head.covariates == ("day",)
    with pytest.raises(stakes.InputError, match=r"`inputs.covariates` is None.*'day'"):
        head.fit(KEY, *biased(40), TILTED)


def test_a_regressor_gets_decision_quantiles_and_covariates_and_stays_as_it_was() -> None:
    shown, outcomes = biased(100)
    day = np.random.default_rng(0).normal(size=(100, 2))
    shown = shown._replace(covariates=day)
    own = LeastSquares()
    head = Regressor(own, covariates=("day",))
    fitted = head.fit(KEY, shown, outcomes + 50 * day[:, 1], SQUARED)
    assert cost(SQUARED, outcomes + 50 * day[:, 1], fitted.decide(shown)) < 10
    assert fitted.estimator.columns == 1 + len(LEVELS) + 2  # type: ignore[attr-defined]
    assert own.columns is None
    assert head.title == "LeastSquares"


def test_covariates_must_be_those_of_the_fit() -> None:
    shown, outcomes = biased(40)
    shown = shown._replace(covariates=np.zeros((40, 2)))
    started = jax.tree.map(np.asarray, network._start(KEY, len(LEVELS) + 5, 8))
    for fitted in (
        Regressor(LeastSquares()).fit(KEY, shown, outcomes, TILTED),
        network.NetworkMap(network.Units.of(shown, outcomes), started),
    ):
        with pytest.raises(stakes.InputError, match=r"`inputs.covariates`.* 2 fewer"):
            fitted.decide(shown._replace(covariates=None))
        with pytest.raises(stakes.InputError, match=r"`inputs.covariates`.* 1 more"):
            fitted.decide(shown._replace(covariates=np.zeros((40, 3))))


def test_a_regressor_is_cloned_as_scikit_learn_does_it() -> None:
    class Cloning(LeastSquares):
        def __sklearn_clone__(self) -> "Cloning":
            return Cloning(columns=-1)

    fitted = Regressor(Cloning()).fit(KEY, *biased(40), SQUARED)
    assert type(fitted.estimator) is Cloning  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [LeastSquares, object(), None, np.mean, "forest"])
def test_what_cannot_fit_and_predict_is_no_regressor(wrong: Any) -> None:
    with pytest.raises(stakes.InputError, match=r"`Regressor\(estimator=...\)` must be a reg"):
        Regressor(wrong)


def test_a_regressor_that_fails_is_named() -> None:
    class Picky(LeastSquares):
        def fit(self, X: np.ndarray, y: np.ndarray) -> "Picky":  # noqa: N803
            raise ValueError("at least 100 rows")

    class Wide(LeastSquares):
        def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
            return X[:, :2]

    class Endless(LeastSquares):
        def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
            return X[:, 0] + np.inf

    with pytest.raises(stakes.InputError, match=r"Picky.*40 rows of 22 columns.*least 100 rows"):
        Regressor(Picky()).fit(KEY, *biased(40), TILTED)
    with pytest.raises(stakes.InputError, match=r"Wide.*one number for each of 40.*\(40, 2\)"):
        Regressor(Wide()).fit(KEY, *biased(40), TILTED)
    with pytest.raises(stakes.NumericalError, match=r"Endless.*40 decisions that are not finite"):
        Regressor(Endless()).fit(KEY, *biased(40), TILTED)
