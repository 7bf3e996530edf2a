"""The arguments of models, and the values given for them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpyro import handlers

import stakes
from stakes.arguments import (
    arguments_of,
    by_name,
    checked_value,
    columns_of,
    in_order,
    is_conditioned,
    rows_where,
    without,
)


def model(x: Any, scale: Any = 1.0, *, y: Any = None, **more: Any) -> None: ...


def by_place(x: Any, scale: Any, /, y: Any = None) -> tuple[Any, ...]:
    return x, scale, y


def test_arguments_are_known_behind_handlers() -> None:
    found = arguments_of(handlers.seed(handlers.condition(model, data={"y": 1.0}), 0))
    assert (found.names, found.required, found.open) == (("x", "scale", "y"), ("x",), ("y",))
    assert found.open_ended
    assert is_conditioned(handlers.seed(handlers.condition(model, data={"y": 1.0}), 0), "y")
    assert not is_conditioned(model, "y")


def test_arguments_that_only_have_places_get_names() -> None:
    named = by_name(by_place)
    assert named(y=3, scale=2, x=1) == (1, 2, 3)
    assert arguments_of(named).required == ("x", "scale")
    assert named == by_name(by_place)
    assert by_name(model) is model


def test_a_program_is_called_without_what_it_does_not_take() -> None:
    assert without(lambda **data: data, ("x",))(x=1, y=2) == {"y": 2}
    assert without(model, ()) is model


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"`data\['x'\]` must be finite"),
        (["a"], "must hold numbers.*Encode categories"),
        (np.ones((0, 2)), r"zero rows: its shape is \(0, 2\)"),
        ([1.0, np.nan, np.inf], "2 values that are NaN or infinite, in rows 1 and 2"),
        ([1.0, 1e300], "infinite in float32, in row 1"),
        ([1, 2**40], "whole numbers that int32 cannot hold"),
    ],
)
def test_values_that_no_model_can_take_are_refused(value: Any, message: str) -> None:
    with pytest.raises(stakes.InputError, match=message):
        checked_value("x", value)


def test_numbers_of_groups_stay_as_many_as_they_were() -> None:
    with pytest.raises(stakes.InputError, match="groups that float32 cannot tell apart"):
        checked_value("x", [2.0**24, 2.0**24 + 1], groups=True)


def test_what_is_no_array_stays_what_it_is() -> None:
    assert checked_value("x", (np.int64(2), 3)) == (2, 3)
    assert checked_value("x", None) is None
    assert checked_value("x", np.float32(0.5)) == 0.5
    held = checked_value("x", [1, 2])
    assert isinstance(held, jnp.ndarray)


def test_columns_of_a_table_have_the_order_of_the_fit() -> None:
    table = pd.DataFrame({"a": [1.0], "b": [2.0]})
    assert columns_of({"x": table, "y": np.ones(2)}) == {"x": ("a", "b")}
    assert list(in_order("x", table, ("b", "a")).columns) == ["b", "a"]
    assert in_order("x", 3.0, ("b", "a")) == 3.0
    with pytest.raises(stakes.InputError, match="has the columns 'a', 'b'; in the fit it had 'a'"):
        in_order("x", table, ("a", "c"))


def test_rows_are_those_with_something_bad() -> None:
    bad = np.array([[False, True], [False, False], [True, True]])
    assert rows_where(bad) == "rows 0 and 2"
    assert rows_where(np.array(True)) == "row 0"
