"""Tables as arguments of a model: what their numbers stand for, and what is refused."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import stakes
from stakes.tables import Coding, Wanted, codes_of, read

WANTED = Wanted(("store", "x", "sold"), ("store", "x"), "sold", "model")


def test_a_new_category_is_refused_with_its_row_where_the_model_counts_no_members() -> None:
    fitted = Coding({"store": ("Bonn", "Ulm")})
    frame = pd.DataFrame({"store": ["Ulm", "Fulda"], "x": [1, 2]})
    with pytest.raises(stakes.InputError, match=r"'store': row 1: 'Fulda' was not in .*np\.unique"):
        read(frame, WANTED, fitted, needs_outcome=False)
    found = read(frame.iloc[:1], WANTED, fitted, needs_outcome=False)
    assert found.arguments["store"].tolist() == [1]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            ["1", "2", "n/a"],
            r"2 of 3 values are numbers; row 2 says 'n/a'.*`frame\['x'\]\.replace\(",
        ),
        (["1", "2", "3"], r"3 of 3 values are numbers\. Convert"),
        ([1.0, "a", 2.0], r"must hold numbers or words; row 0 has 1\.0"),
        (pd.date_range("2024-01-01", periods=3), r"holds dates.*`x_weekday`"),
        ([None, None, 3.0], r"no value in rows 0 and 1"),
        (pd.array([1, None, 3], "Int64"), r"no value in row 1"),
    ],
    ids=["some numbers", "all numbers", "mixed", "dates", "missing", "missing whole number"],
)
def test_a_column_that_can_be_misunderstood_is_refused(column: Any, message: str) -> None:
    frame = pd.DataFrame({"store": ["a", "b", "c"], "x": column})
    with pytest.raises(stakes.InputError, match=message):
        read(frame, WANTED, needs_outcome=False)


@pytest.mark.parametrize(
    ("column", "kind"),
    [([True, False], "b"), (pd.array([1, 2], "Int64"), "i"), (pd.array([0.5, 1], "Float32"), "f")],
)
def test_truth_values_and_numbers_stay_what_they_are(column: Any, kind: str) -> None:
    found = read(pd.DataFrame({"store": [1, 2], "x": column}), WANTED, needs_outcome=False)
    assert found.arguments["x"].dtype.kind == kind
    np.testing.assert_array_equal(found.arguments["x"], np.asarray(column, float))


def test_declared_categories_keep_their_order_and_those_that_do_not_occur() -> None:
    sizes = pd.Categorical(["mid", "low"], ["low", "mid", "high"], ordered=True)
    found = read(pd.DataFrame({"store": sizes, "x": [1, 2]}), WANTED, needs_outcome=False)
    assert found.arguments["store"].tolist() == [1, 0]
    assert found.coding.categories["store"] == ("low", "mid", "high")


def test_days_are_counted_from_the_first_date_of_the_fit() -> None:
    wanted = Wanted(("day_days",), ("day_days",), "y", "model")
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-03-01 06:00", "2024-02-28 00:00"])})
    first = read(frame, wanted, needs_outcome=False)
    later = read(frame.iloc[:1], wanted, first.coding, needs_outcome=False)
    assert first.arguments["day_days"].tolist() == [2.25, 0.0]
    assert later.arguments["day_days"].tolist() == [2.25]


def test_rows_that_are_just_numbered_have_no_labels() -> None:
    frame = pd.DataFrame({"store": [1, 2], "x": [1, 2]})
    assert read(frame, WANTED, needs_outcome=False).rows.labels is None
    assert read(frame.set_index([[7, 3]]), WANTED, needs_outcome=False).rows.labels == [7, 3]


def test_a_table_for_a_fit_that_had_none_must_hold_numbers() -> None:
    frame = pd.DataFrame({"store": [1, 2], "x": ["a", "b"]})
    with pytest.raises(stakes.InputError, match=r"'x' holds 'a' in row 0, where the fit had"):
        read(frame, WANTED, Coding(), needs_outcome=False)


def test_codes_are_places_among_the_categories() -> None:
    assert codes_of(["b", "a", "?"], ["a", "b"]).tolist() == [1, 0, -1]


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (["wet", "n/a", "dry"], r"row 1 says 'n/a'.*replace\({'n/a': ''}\).*astype\('category'\)"),
        (["2024-01-03", "soon", "2024-01-05"], "2 of 3 values are dates; row 1 says 'soon'"),
        (["2024-01-03", "2024-01-04", "2024-01-05"], "holds dates.*`store_weekday`"),
        (["ulm", "Ulm", "Ulm"], r"'Ulm' \(2 times, first in row 1\) and 'ulm'.*capital letters"),
    ],
)
def test_words_of_a_frame_are_seen_by_the_doctor(store: list[str], message: str) -> None:
    frame = pd.DataFrame({"store": store, "x": [1, 2, 3]})
    with pytest.raises(stakes.InputError, match=message):
        read(frame, WANTED, needs_outcome=False)
    frame["store"] = frame["store"].astype("category")
    found = read(frame, WANTED, needs_outcome=False)
    assert found.coding.categories["store"] == tuple(sorted(set(store)))


def test_parts_of_dates_are_those_of_the_clock_where_they_were_taken() -> None:
    wanted = Wanted(("day_hour", "day_days"), (), "y", "model")
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-03-30 06:00", "2024-04-01 00:30"])})
    there = frame.assign(day=frame["day"].dt.tz_localize("Europe/Berlin"))
    first = read(there, wanted, needs_outcome=False)
    assert first.arguments["day_hour"].tolist() == [6, 0]
    with pytest.raises(stakes.InputError, match="must have a time zone where it had one"):
        read(frame, wanted, first.coding, needs_outcome=False)
    words = frame.assign(day=["30.3.2024", "1.4.2024"])
    assert read(words, wanted, needs_outcome=False).arguments["day_days"].tolist() == [0, 2]


def test_known_categories_come_first_and_keep_their_types_where_new_ones_may_come() -> None:
    frame = pd.DataFrame({"store": pd.Categorical([20, 3, 20]), "x": [1, 2, 3]})
    first = read(frame, WANTED, needs_outcome=False)
    other = pd.DataFrame({"store": [7, 20.0, 7], "x": [1, 2, 3]})
    found = read(other, WANTED, first.coding, counted=["store"], needs_outcome=False)
    assert found.coding.categories["store"] == (20, 7)
    assert found.arguments["store"].tolist() == [1, 0, 1]
