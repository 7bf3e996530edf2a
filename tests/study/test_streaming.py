"""Tables larger than memory: every row once a pass, whatever their order; and what is refused."""

import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pandas as pd
import pytest
from parquet_parts import write_parts
from scipy.optimize import minimize
from scipy.special import expit

import stakes
from stakes.fitting import Hooks, run
from stakes.study import Options, Study, Work, calibration_of, prepare
from stakes.study.plan import Plan
from stakes.study.streaming import StreamedRows, opened
from stakes.tables import Passes, Shuffled, copy_shuffled

pa = pytest.importorskip("pyarrow")
import pyarrow.csv as csv  # noqa: E402

KEY = jax.random.key(4)
ROWS, BATCH = 24_000, 100
SHOPS = np.array(["north", "south", "west"])
LEVEL, SLOPE = np.array([0.5, -1.0, 0.2]), 1.5


def simulated() -> dict[str, np.ndarray]:
    """In order of the outcome and of x: minibatches of neighbours would be all alike."""
    rng = np.random.default_rng(8)
    shop, x = rng.integers(3, size=ROWS), rng.normal(size=ROWS)
    y = rng.random(ROWS) < expit(LEVEL[shop] + SLOPE * x)
    order = np.lexsort((x, y))
    return {"shop": SHOPS[shop][order], "x": x[order], "y": y[order]}


DATA = simulated()


def model(shop: Any, x: Any, shops: int, y: Any = None) -> None:
    with numpyro.plate("shop", shops):
        level = numpyro.sample("level", dist.Normal(0, 2))
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    with numpyro.plate("row", len(x), subsample_size=min(BATCH, len(x))) as at:
        logits = level[shop[at]] + slope * x[at]
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=None if y is None else y[at])


def guide(shop: Any, x: Any, shops: int, y: Any = None) -> None:
    """Independent normals, which are quicker to set up than an autoguide."""
    positive = dist.constraints.positive
    with numpyro.plate("shop", shops):
        at = numpyro.param("level_at", jnp.zeros(shops))
        spread = numpyro.param("level_spread", jnp.full(shops, 0.1), constraint=positive)
        numpyro.sample("level", dist.Normal(at, spread))
    at, spread = (
        numpyro.param("slope_at", 0.0),
        numpyro.param("slope_spread", 0.1, constraint=positive),
    )
    numpyro.sample("slope", dist.Normal(at, spread))


PROBLEM = stakes.Problem(model, outcome="y", loss=stakes.Squared(), guide=guide)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("files"), DATA)


@pytest.fixture(scope="module")
def copy(files: Path) -> Shuffled:
    return copy_shuffled(stakes.Stream(files).sources(), ["shop", "x", "y"], "y", [1])


@pytest.fixture(scope="module")
def result(files: Path) -> stakes.Calibration:
    stream = stakes.Stream(str(files / "*.parquet"), constants={"shops": 3})
    return stakes.calibrate(KEY, PROBLEM, stream, steps=8000, draws=6, progress=False)


def exact() -> tuple[np.ndarray, np.ndarray]:
    """The mode of the posterior, where it is nearly normal, and what mean-field makes of it."""
    shop = np.searchsorted(SHOPS, DATA["shop"])
    columns = np.column_stack([*(shop == i for i in range(3)), DATA["x"]]).astype(float)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        logits = columns @ theta
        value = np.logaddexp(0, logits).sum() - logits @ DATA["y"] + (theta**2).sum() / 8
        return value, columns.T @ (expit(logits) - DATA["y"]) + theta / 4

    mode = minimize(loss, np.zeros(4), jac=True, tol=1e-10).x
    p = expit(columns @ mode)
    return mode, 1 / np.sqrt((columns**2 * (p * (1 - p))[:, None]).sum(axis=0) + 0.25)


def test_a_stream_has_the_posterior_of_all_its_rows(result: stakes.Calibration) -> None:
    """Rows in memory stand for all: with their own number, deviations would be twice as large.

    Calibration makes them smaller, by how much is not known exactly.
    """
    mode, deviation = exact()
    for fit in (result.vi, result.calibrated):
        drawn = result.posterior(fit, draws=2000)
        found = np.column_stack([drawn["level"].values[0], drawn["slope"].values[0]])
        assert np.abs((found.mean(axis=0) - mode) / deviation).max() < 2
        if fit is result.vi:
            np.testing.assert_allclose(found.std(axis=0), deviation, rtol=0.25)


def test_all_rows_of_a_stream_are_decided_about_in_their_order(result: stakes.Calibration) -> None:
    mode, _ = exact()
    shop = np.searchsorted(SHOPS, DATA["shop"])
    best = expit(mode[shop] + mode[3] * DATA["x"])
    for decisions in (result.decisions, result.vi_decisions):
        assert decisions.shape == (ROWS,)
        assert decisions.dims == ("row",)
        assert isinstance(decisions.indexes["row"], pd.RangeIndex)  # numbers of rows take no memory
        np.testing.assert_allclose(decisions.values, best, atol=0.03)
    assert "a random sample of 10,000 of 24,000 rows" in repr(result)
    other = result.decide({"shop": np.array([0]), "x": np.array([0.3]), "shops": 3}, new="row")
    np.testing.assert_allclose(other.values, expit(mode[0] + mode[3] * 0.3), atol=0.03)


@pytest.mark.slow
def test_few_rows_of_a_stream_are_fitted_as_a_table(files: Path, tmp_path: Path) -> None:
    few = {name: values[::60] for name, values in DATA.items()}
    csv.write_csv(pa.table(few), tmp_path / "few.csv")
    given = {"steps": 60, "draws": 2, "progress": False}
    streamed = stakes.Stream(tmp_path / "few.csv", constants={"shops": 3})
    found = stakes.calibrate(KEY, PROBLEM, streamed, **given)
    codes = np.searchsorted(SHOPS, few["shop"])
    data = {"shop": codes, "x": few["x"], "y": few["y"].astype(int), "shops": 3}
    plain = stakes.calibrate(KEY, PROBLEM, data, **given)
    np.testing.assert_array_equal(found.decisions.to_numpy(), plain.decisions.values)


NOISE = 0.7
LOCAL_ROWS = ROWS + 70
"""Which no number of minibatches has."""


def local(x: Any, y: Any = None) -> None:
    with numpyro.plate("row", len(x), subsample_size=min(2 * BATCH, len(x))) as at:
        own = numpyro.sample("own", dist.Normal(0, 1))
        seen = None if y is None else y[at]
        numpyro.sample("y", dist.Normal(x[at] + own, NOISE), obs=seen)


LOCAL = stakes.Problem(local, outcome="y", loss=stakes.Squared())


@pytest.fixture(scope="module")
def numbers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=LOCAL_ROWS)
    return {"x": x, "y": rng.normal(x, np.hypot(1, NOISE))}


@pytest.fixture(scope="module")
def number_files(tmp_path_factory: pytest.TempPathFactory, numbers: dict[str, np.ndarray]) -> Path:
    return write_parts(tmp_path_factory.mktemp("numbers"), numbers, plain=True)


def test_rows_of_a_stream_may_have_latents(
    number_files: Path, numbers: dict[str, np.ndarray]
) -> None:
    """Whose posterior is exact: rows in memory that counted for themselves in the model, and for
    all in the guide, would have another spread. Weak calibration leaves it alone. After a dozen
    visits, decisions are off by a twentieth of what they vary by; those of other rows, by 1.2."""
    weak = stakes.Linearized(scale=1e6)
    given = {"steps": 1500, "draws": 4, "progress": False, "transform": weak}
    found = stakes.calibrate(KEY, LOCAL, stakes.Stream(number_files), **given)
    variance = 1 / (1 + NOISE**-2)
    mean = variance * (numbers["y"] - numbers["x"]) / NOISE**2
    for decisions in (found.vi_decisions, found.decisions):
        assert decisions.shape == (LOCAL_ROWS,)
        assert np.std(decisions.values - numbers["x"] - mean) < 0.1
    drawn = found.posterior(found.calibrated, draws=200)["own"].values[0]
    assert drawn.shape == (200, 200 * BATCH)
    np.testing.assert_allclose(drawn.std(axis=0).mean(), np.sqrt(variance), rtol=0.1)
    with warnings.catch_warnings():  # rows are known by nothing: as many as in the sample are new
        warnings.simplefilter("error")
        other = found.decide({"x": np.zeros(200 * BATCH)})
    assert np.std(other.values) < 0.2  # what is known of single rows has a deviation of 0.8


def test_a_fit_that_was_left_out_decides_about_rows_as_the_one_before_it(
    number_files: Path,
) -> None:
    options = Options(steps=200, draws=2, method=stakes.EM())
    given = (KEY, LOCAL, stakes.Stream(number_files), options)
    found = calibration_of(Study(*given, work=Work(progress=False)), plain=True)
    assert np.std(found.decisions.values) > 0.1
    np.testing.assert_array_equal(found.decisions.values, found.vi_decisions.values)
    found.beyond._kept.clear()  # as if what is in memory were of all rows
    found.beyond._decided.clear()
    with pytest.raises(stakes.InputError, match="Nothing is known of the single rows"):
        _ = found.decisions


def amortised(x: Any, y: Any = None) -> None:
    """A guide that looks at the data, and has no parameters of rows; it is exact at once."""
    weight = numpyro.param("weight", 1 / (1 + NOISE**2))
    with numpyro.plate("row", len(x), subsample_size=min(2 * BATCH, len(x))) as at:
        mean = 0.0 if y is None else weight * (y[at] - x[at])
        numpyro.sample("own", dist.Normal(mean, 1 / np.sqrt(1 + NOISE**-2)))


def test_a_guide_that_looks_at_the_data_sees_those_of_the_rows_it_decides_about(
    number_files: Path, numbers: dict[str, np.ndarray]
) -> None:
    problem = stakes.Problem(local, outcome="y", loss=stakes.Squared(), guide=amortised)
    still = optax.sgd(0.0)
    options = Options(steps=100, draws=2, optimizer=still, method=stakes.EM())
    given = (KEY, problem, stakes.Stream(number_files), options)
    found = calibration_of(Study(*given, work=Work(progress=False)), plain=True).vi_decisions.values
    own = (numbers["y"] - numbers["x"]) / (1 + NOISE**2)
    assert np.std(found - numbers["x"] - own) < 0.2  # draws; own has a deviation of 0.8


def test_steps_with_rows_on_disk_are_those_with_all_rows_in_memory(number_files: Path) -> None:
    """Also where a chunk ends one pass and begins the next, so that rows come twice in it, and a
    minibatch that has rows of both passes."""
    options = Options(steps=300, draws=2, all_steps=True, method=stakes.EM())
    beyond = opened(LOCAL, stakes.Stream(number_files), 100, KEY)
    assert isinstance(beyond, StreamedRows)
    plan = beyond.of(prepare(KEY, LOCAL, beyond.sample, options))
    state, settings = plan.vi_state(plan.approximation.start), plan.settings
    go = partial(run, "VI", plan.vi_step(), plan.approximation, state, KEY, settings)
    streamed = beyond.fit(go, plan.approximation, state, settings, KEY, {})
    [(_, kept)] = beyond._kept

    rows = np.concatenate([beyond.copy.read(file) for file in beyond.copy.files])
    held = prepare(KEY, LOCAL, {name: rows[name] for name in ("x", "y")}, options)
    begin = jax.tree.map(lambda leaf: np.resize(leaf, (LOCAL_ROWS,)), plan.approximation.start)
    passes = Passes(beyond.copy, [int(word) for word in jax.random.key_data(KEY)])

    def feed(start: int, count: int) -> Any:
        batches = passes.places(2 * start * BATCH, 2 * count * BATCH).reshape(count, 2 * BATCH)
        return held.approximation, {"row": batches}

    alone = partial(run, "VI", held.vi_step(), held.approximation, held.vi_state(begin), KEY)
    whole = alone(held.settings, hooks=Hooks(feed=feed))
    np.testing.assert_allclose(streamed.elbo, whole.elbo, rtol=1e-4)
    found = kept.params(streamed.params, np.arange(LOCAL_ROWS))
    assert np.ptp(np.asarray(found["own_auto_loc"])) > 1
    for name, value in whole.params.items():
        np.testing.assert_allclose(found[name], value, atol=2e-4)


class Own(NamedTuple):
    """What one of several processes has of a stream."""

    beyond: StreamedRows
    plan: Plan
    given: Any
    batches: np.ndarray


STEPS = 20


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_row_that_the_model_cannot_take_is_found_wherever_it_is(
    tmp_path: Path, seed: int
) -> None:
    """In the sample or not: JAX would take the last shop in its place."""
    data = {name: values.copy() for name, values in DATA.items()}
    data["shop"] = np.searchsorted(SHOPS, data["shop"])
    data["shop"][12_345] = 3
    stream = stakes.Stream(write_parts(tmp_path, data, plain=True), constants={"shops": 3})
    with pytest.raises(stakes.InputError, match=r"'shop'.* 3"):
        stakes.calibrate(jax.random.key(seed), PROBLEM, stream, steps=10, progress=False)


def at_once(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=slope * x), obs=y)


def looking(shop: Any, x: Any, y: Any = None) -> None:
    with numpyro.plate("shop", len(np.unique(shop))):
        level = numpyro.sample("level", dist.Normal(0, 2))
    with numpyro.plate("row", len(x), subsample_size=BATCH) as at:
        logits = level[shop[at]]
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=None if y is None else y[at])


@pytest.mark.parametrize(
    ("program", "options", "message"),
    [
        (looking, {}, "looks at the values of 'shop'.*constants="),
        (model, {}, "no column 'shops'"),
        (local, {"method": stakes.Joint()}, "rows of a `Stream.*come and go"),
    ],
)
def test_what_a_stream_cannot_serve_is_refused(
    files: Path, program: Any, options: Any, message: str
) -> None:
    problem = stakes.Problem(program, outcome="y", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match=message):
        stakes.calibrate(KEY, problem, stakes.Stream(files), steps=10, progress=False, **options)


def test_a_model_without_minibatches_is_told_to_take_them(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.study.streaming.PROBED", 1000)
    problem = stakes.Problem(at_once, outcome="y", loss=stakes.Squared())
    with pytest.raises(stakes.InputError, match=r"24,000 rows.*subsample_size="):
        stakes.calibrate(KEY, problem, stakes.Stream(files), progress=False)


def test_only_calibrate_takes_a_stream(files: Path, result: stakes.Calibration) -> None:
    for call in (
        lambda: stakes.choose(KEY, PROBLEM, stakes.Stream(files)),
        lambda: result.decide(stakes.Stream(files)),
    ):
        with pytest.raises(stakes.InputError, match="is for `calibrate`"):
            call()
