"""What a user's type checker sees: `make lint` checks this file, and nothing runs it."""

from typing import Any, assert_type

import jax
import numpy as np
import pandas as pd
import xarray as xr

import stakes


def arrays_give_arrays(key: jax.Array, problem: stakes.Problem, data: dict[str, Any]) -> None:
    result = stakes.calibrate(key, problem, data, steps=10)
    assert_type(result, stakes.Calibration)
    assert_type(result.decide(data), xr.DataArray)
    assert_type(stakes.choose(key, problem, data).decide(data, way="plain VI"), xr.DataArray)


def tables_give_columns(key: jax.Array, problem: stakes.Problem, table: pd.DataFrame) -> None:
    result = stakes.calibrate(key, problem, table)
    assert_type(result.decide(table, new="day"), "pd.Series[Any]")
    choice = stakes.choose(key, problem, table, [stakes.Plain(), stakes.Same()])
    assert_type(choice.decide(table), "pd.Series[Any]")
    assert_type(choice.table, pd.DataFrame)


def streams_are_tables(key: jax.Array, problem: stakes.Problem) -> None:
    stakes.calibrate(key, problem, stakes.Stream("sales/*.parquet"))


def comparisons_are_plain_numbers(result: stakes.Calibration, table: pd.DataFrame) -> None:
    comparison = result.compare(table)
    assert_type(comparison, stakes.Comparison)
    assert_type(comparison.reduction, float)
    assert_type(comparison.interval, tuple[float, float])
    assert_type(comparison.risk, dict[str, float])
    assert_type(comparison.costs["VI"], np.ndarray)
