"""One picture of decisions, ranges and outcomes."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from report_samples import sample_report

from stakes.report.decision_table import Decisions
from stakes.report.overview import Agreement, Overview, overview


def table(rows: int, **changes: Any) -> Decisions:
    return replace(sample_report(rows).decisions, **changes)


def drawn(picture: Overview | Agreement, width: int = 900) -> Any:
    """The axes of the picture, laid out."""
    figure = Figure((width / 72, 300 / 72), dpi=72, layout="constrained")
    ax = figure.add_subplot()
    picture.draw(ax)
    figure.draw_without_rendering()
    return ax


def test_the_picture_follows_the_dates_whatever_the_order_of_the_rows() -> None:
    days = tuple(f"2025-01-{day:02d}" for day in (3, 1, 2))
    values = np.array([30.0, 10.0, 20.0])
    shown = overview(
        table(3, labels={"date": days}, calibrated=values, parts=("new", "fit", "fit"))
    )
    assert isinstance(shown, Overview)
    assert "day by day" in shown.caption
    assert shown.decisions.tolist() == [10.0, 20.0, 30.0]
    assert shown.names == tuple(sorted(days))
    assert shown.parts == ((2, "new"),)


@pytest.mark.parametrize("width", [420, 900])
@pytest.mark.parametrize("rows", [1, 2, 7, 30, 89])
def test_no_name_below_the_picture_is_cut_off_or_overlaps_another(rows: int, width: int) -> None:
    days = tuple(f"{1 + i % 28:02d}.{1 + i // 28:02d}.2025" for i in range(rows))
    shown = overview(table(rows, labels={"Tag": days}))
    assert shown is not None
    ax = drawn(shown, width)
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert boxes[0].x0 >= 0
    assert boxes[-1].x1 <= width
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_many_rows_without_dates_are_shown_by_group() -> None:
    kinds = tuple("ab"[i % 2] for i in range(200))
    taken = np.array([1.0, 3.0] * 100)
    shown = overview(table(200, inputs={"kind": kinds}, calibrated=taken, low=taken, high=taken))
    assert isinstance(shown, Overview)
    assert "by kind" in shown.caption
    assert dict(zip(shown.names, shown.decisions, strict=True)) == {"a": 1.0, "b": 3.0}


def test_many_rows_of_each_date_are_shown_by_their_means() -> None:
    """As users write dates, in the order of time, whatever label comes first."""
    days = tuple(f"{1 + i // 5:02d}.{2 - i // 50:02d}.2025" for i in range(100))
    dates = tuple(f"2025-{2 - i // 50:02d}-{1 + i // 5:02d}" for i in range(100))
    taken = np.arange(100.0)
    labels = {"town": tuple("abcde" * 20), "Tag": days}
    given = table(100, labels=labels, inputs={"date": dates}, calibrated=taken)
    shown = overview(replace(given, parts=("fit",) * 50 + ("new",) * 50))
    assert isinstance(shown, Overview)
    assert shown.caption.endswith("day by day.")
    assert (len(shown.names), shown.names[0]) == (20, "11.01.2025")
    assert shown.parts == ((10, "fit"),)
    # The days of January were decided higher.
    assert shown.decisions.tolist() == [*np.arange(52.0, 100, 5), *np.arange(2.0, 50, 5)]
    few = overview(given, most=4)
    assert isinstance(few, Overview)
    assert "the latest 4 of 20 dates" in few.caption
    assert len(few.names) == few.values.shape[1] == 4


def test_marks_lie_where_the_values_are() -> None:
    taken = np.array([10.0, 11.0, 12.0, 13.0, 14.0])
    shown = overview(table(5, calibrated=taken))
    assert shown is not None
    lines = {line.get_label(): line.get_ydata() for line in drawn(shown).get_lines()}
    np.testing.assert_array_equal(lines["decision"], taken)
    np.testing.assert_array_equal(lines["outcome"], table(5).observed)


def test_probabilities_are_shown_beside_how_often_it_came() -> None:
    chance = np.linspace(0, 1, 100)
    came = (np.arange(100) >= 50).astype(float)
    shown = overview(table(100, chances={"0": 1 - chance, "1": chance}, observed=came))
    assert isinstance(shown, Agreement)
    assert shown.shares.tolist() == [0.0] * 5 + [1.0] * 5
    assert shown.chances[[0, -1]] == pytest.approx([0.045, 0.955], abs=0.001)
    assert [tick.get_text() for tick in drawn(shown).get_yticklabels()][1] == "0 %"
