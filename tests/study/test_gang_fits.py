"""Fits that the workers of a Dask cluster make together, and one of them lost on the way."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import stakes
from stakes.errors import InputError
from tests.cluster import dying, two_workers

KEY = jax.random.key(0)
ROWS, BATCH = 4001, 20
GIVEN: dict[str, Any] = {"steps": 500, "progress": False}


def line(x: Any, y: Any = None) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x), subsample_size=BATCH) as at:
        seen = None if y is None else y[at]
        numpyro.sample("y", dist.Normal(slope * x[at], 1), obs=seen)


def with_rows(x: Any, y: Any = None) -> None:
    with numpyro.plate("row", len(x), subsample_size=BATCH) as at:
        own = numpyro.sample("own", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(own, 1), obs=None if y is None else y[at])


PROBLEM = stakes.Problem(line, outcome="y", loss=stakes.Tilted(0.2))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=ROWS))
    return {"x": x, "y": 0.5 - x + rng.normal(size=ROWS)}


@pytest.fixture(scope="module")
def stream(table: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> stakes.Stream:
    path = tmp_path_factory.mktemp("rows") / "table.csv"
    rows = np.column_stack([table["x"], table["y"]])
    np.savetxt(path, rows, delimiter=",", header="x,y", comments="")
    return stakes.Stream(path)


def slope_of(result: stakes.Calibration) -> float:
    return float(result.calibrated.params["slope_auto_loc"])


@pytest.mark.slow
def test_workers_find_what_one_process_finds(client: Any, table: dict[str, np.ndarray]) -> None:
    alone = stakes.calibrate(KEY, PROBLEM, table, **GIVEN)
    together = stakes.calibrate(KEY, PROBLEM, table, **GIVEN, on=client)
    np.testing.assert_allclose(slope_of(together), slope_of(alone), atol=0.02)
    np.testing.assert_allclose(together.decisions, alone.decisions, atol=0.1)
    np.testing.assert_allclose(together.scale, alone.scale, rtol=0.05)


@pytest.mark.slow
def test_a_worker_that_is_lost_changes_no_number(client: Any, table: dict[str, np.ndarray]) -> None:
    given = {**GIVEN, "steps": 3000}
    calm = stakes.calibrate(KEY, PROBLEM, table, **given, on=client)
    dying(client, 12)
    with pytest.warns(stakes.StakesWarning, match="start again from the last checkpoint"):
        disturbed = stakes.calibrate(KEY, PROBLEM, table, **given, on=client)
    np.testing.assert_array_equal(disturbed.calibrated.bound, calm.calibrated.bound)
    np.testing.assert_array_equal(disturbed.decisions, calm.decisions)


@pytest.mark.slow
def test_workers_share_the_rows_of_a_stream(
    client: Any, stream: stakes.Stream, table: dict[str, np.ndarray]
) -> None:
    result = stakes.calibrate(KEY, PROBLEM, stream, **GIVEN, on=client)
    assert result.decisions.shape == (ROWS,)
    best = slope_of(result) * table["x"] - 0.8416  # the 0.2-quantile
    np.testing.assert_allclose(result.decisions, best, atol=0.01)
    result.compare()


@pytest.mark.slow
def test_rows_of_a_stream_have_latents_of_their_own_on_workers(
    client: Any, stream: stakes.Stream, table: dict[str, np.ndarray]
) -> None:
    problem = stakes.Problem(with_rows, outcome="y", loss=stakes.Squared())
    result = stakes.calibrate(KEY, problem, stream, **{**GIVEN, "steps": 3000}, on=client)
    np.testing.assert_allclose(result.decisions, table["y"] / 2, atol=0.25)


@pytest.mark.slow
def test_what_is_wrong_with_a_stream_is_told_by_a_worker(client: Any, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match="y"):
        stakes.calibrate(KEY, PROBLEM, stakes.Stream(tmp_path / "table.csv"), on=client)


def test_a_model_without_minibatches_is_refused_before_any_worker_is_asked() -> None:
    def mean(y: Any = None) -> None:
        m = numpyro.sample("m", dist.Normal(0, 1))
        with numpyro.plate("row", 4):
            numpyro.sample("y", dist.Normal(m, 1), obs=y)

    problem = stakes.Problem(mean, outcome="y", loss=stakes.Squared())
    asked = SimpleNamespace(submit=None, cancel=None, scheduler_info=None)
    with pytest.raises(InputError, match=r"subsample_size=.*this model has none"):
        stakes.calibrate(KEY, problem, {"y": np.ones(4)}, on=asked)
