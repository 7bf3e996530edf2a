"""Tables as data: columns by name, what their numbers stand for, and decisions with their index."""

from functools import cache
from typing import Any

import arviz_base
import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from scipy.special import logsumexp

import stakes
from stakes.study import Keys, prepare

KEY = jax.random.key(0)


def model(store: Any, x: Any, day_weekday: Any, sold: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 2))
    with numpyro.plate("store", len(np.unique(store))):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        mean = level + effect[store] + 0.1 * x + 0.01 * day_weekday
        numpyro.sample("sold", dist.Normal(mean, 1), obs=sold)


PROBLEM = stakes.Problem(model, outcome="sold", loss=stakes.Tilted(0.2))


def table() -> pd.DataFrame:
    rng, rows = np.random.default_rng(0), 24
    found = pd.DataFrame(
        {
            "store": np.array(["Köln", "Ulm", "Bonn"])[np.arange(rows) % 3],
            "x": rng.normal(size=rows),
            "day": pd.date_range("2024-01-01", periods=rows),
            "note": "not asked for",
        },
        index=[f"r{row}" for row in range(rows)],
    )
    found["sold"] = rng.normal(size=rows) + 6 * (found.store == "Ulm")
    return found


def other() -> pd.DataFrame:
    stores = ["Ulm", "Ulm", "Bonn"]
    return table().drop(columns="sold").iloc[:3].assign(store=stores).set_axis(["a", "b", "c"])


@cache
def result() -> stakes.Calibration:
    """As if fitted: Bonn and Köln sell nothing, Ulm five."""
    plan = prepare(KEY, PROBLEM, table(), stakes.Options(transform=stakes.Linearized(scale=1)))
    start = plan.approximation.start
    params = {
        name: jnp.full_like(value, -5 if "scale" in name else 0) for name, value in start.items()
    }
    params["effect_auto_loc"] = jnp.array([0.0, 0.0, 5.0])
    fit = stakes.Fit(
        {"params": params}, np.zeros(3), np.zeros(3), stakes.Stop.CONVERGED, 0, 1.0, 0.1
    )
    return stakes.Calibration(plan, Keys.of(KEY), fit, fit)


def test_a_table_stands_for_arrays_of_the_models_arguments() -> None:
    frame = table()
    arrays = {
        "store": np.unique(frame.store, return_inverse=True)[1],
        "x": frame.x.to_numpy(),
        "day_weekday": frame.day.dt.day_of_week.to_numpy(),
        "sold": frame.sold.to_numpy(),
    }
    found = result().approximation.data
    assert found.keys() == arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6)


def test_decisions_for_a_table_have_its_index_and_categories_are_labels() -> None:
    assert isinstance(result().decisions, pd.Series)
    assert result().decisions.index.equals(table().index)
    assert result().vi_decisions.index.equals(table().index)
    assert list(result().plan.coords["store"]) == ["Bonn", "Köln", "Ulm"]
    assert list(result().plan.coords["row"]) == list(table().index)


def test_categories_keep_what_the_fit_learned_of_them_whatever_others_are_there() -> None:
    decided = result().decide(other())
    assert list(decided.index) == ["a", "b", "c"]
    np.testing.assert_allclose(
        decided - result().decisions.iloc[:3].to_numpy(), [5, 0, 0], atol=0.01
    )


def test_a_new_category_is_drawn_as_a_new_member_of_its_plate() -> None:
    decided = result().decide(other().assign(store=["Ulm", "Berlin", "Bonn"]))
    np.testing.assert_allclose(decided["a"], result().decide(other())["a"], atol=0.01)
    # A new store has effects with a standard deviation of 1 around 0.
    expected = 0.1 * other()["x"].iloc[1] + 0.01 + np.sqrt(2) * stats.norm.ppf(0.2)
    np.testing.assert_allclose(decided["b"], expected, atol=0.1)


def test_held_out_tables_are_compared_and_need_every_outcome() -> None:
    assert result().compare(table().iloc[:12]).cases == 12
    gap = table().iloc[:12].copy()
    gap.loc["r3", "sold"] = np.nan
    with pytest.raises(stakes.InputError, match=r"'sold': has no value in row 'r3'"):
        result().compare(gap)
    assert len(result().decide(gap)) == 12


def test_tables_of_other_libraries_give_columns_of_theirs() -> None:
    found = result().decide(pa.Table.from_pandas(other(), preserve_index=False))
    assert isinstance(found, pa.ChunkedArray)
    np.testing.assert_array_equal(found.to_numpy(), result().decide(other()).to_numpy())


@pytest.mark.slow
def test_a_choice_takes_and_gives_tables() -> None:
    ways = [stakes.Plain(), stakes.Same()]
    choice = stakes.choose(KEY, PROBLEM, table(), ways, folds=2, steps=100, progress=False)
    assert choice.decisions.index.equals(table().index)
    assert list(choice.decide(other()).index) == ["a", "b", "c"]


def test_all_faults_of_a_table_are_told_at_once_with_column_and_row() -> None:
    frame = table().astype({"x": object})
    frame.loc["r2", "x"] = None
    frame.loc["r3", "sold"] = np.inf
    frame.loc["r4", "store"] = "Ulm "
    with pytest.raises(stakes.InputError) as error:
        stakes.calibrate(KEY, PROBLEM, frame.drop(columns="day"))
    said = str(error.value)
    for part in (
        "4 faults",
        "no column 'day_weekday'",
        "'x': has no value in row 'r2'",
        "'sold': is infinite in row 'r3'",
        "and 'Ulm ' (1 time, first in row 'r4') differ by spaces alone",
    ):
        assert part in said


@cache
def tree() -> Any:
    return result().to_arviz(draws=200)


def test_arviz_gets_groups_of_both_fits_with_the_labels_of_the_table() -> None:
    groups = {"posterior", "posterior_predictive", "log_likelihood"}
    assert set(tree().children) == {
        *groups,
        *(f"vi_{name}" for name in groups),
        "observed_data",
        "constant_data",
    }
    assert tree().posterior.effect.dims == ("chain", "draw", "store")
    assert list(tree().posterior.store.values) == ["Bonn", "Köln", "Ulm"]
    assert list(tree().constant_data.store.values) == list(table().store)
    np.testing.assert_allclose(tree().observed_data.sold, table().sold, rtol=1e-5)


def test_log_likelihood_and_posterior_are_of_the_same_draws() -> None:
    frame, draws = table(), tree().posterior.isel(chain=0)
    effect = draws.effect.values[:, np.unique(frame.store, return_inverse=True)[1]]
    weekday = frame.day.dt.day_of_week.to_numpy()
    mean = draws["level"].values[:, None] + effect + 0.1 * frame.x.to_numpy() + 0.01 * weekday
    expected = stats.norm.logpdf(frame.sold.to_numpy(), mean, 1)
    found = tree().log_likelihood.sold.isel(chain=0).values
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_arviz_summarises_it_and_leaves_one_out() -> None:
    summary = arviz_stats.summary(tree(), var_names=["effect"])
    assert list(summary.index) == ["effect[Bonn]", "effect[Köln]", "effect[Ulm]"]
    expected = logsumexp(-tree().log_likelihood.sold.values[0], axis=0) - np.log(200)
    # The posterior here is narrow, so that weights hardly differ.
    assert arviz_stats.loo(tree()).elpd == pytest.approx(-expected.sum(), rel=1e-3)


def test_arviz_makes_the_same_tree_of_its_arrays() -> None:
    groups = {name: group.to_dataset() for name, group in tree().children.items()}
    arrays = {g: {n: v.values for n, v in ds.data_vars.items()} for g, ds in groups.items()}
    dims = {
        name: [dim for dim in values.dims if dim not in ("chain", "draw")]
        for ds in groups.values()
        for name, values in ds.data_vars.items()
    }
    coords = {dim: result().plan.coords[dim] for dim in ("row", "store")}
    # In the data, what belongs to a store has no axis of its own.
    again = arviz_base.from_dict(arrays, dims=dims, coords=coords)
    for name, ds in groups.items():
        assert again[name].to_dataset().drop_attrs().equals(ds.drop_attrs()), name
