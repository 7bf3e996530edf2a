"""The first screen of the report: what to decide, what it is worth, and whether to believe it."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_samples import sample_report, small_fit

import stakes
from stakes.report import Rows, render
from stakes.report.answers import answer, quality
from stakes.report.columns import columns
from stakes.report.content import Decisions
from stakes.report.picture import nice, picture
from stakes.report.worth import Quality, shown


@pytest.fixture(scope="module")
def result() -> stakes.Calibration:
    return small_fit()


def test_expected_costs_are_means_over_what_is_predicted(result: stakes.Calibration) -> None:
    rows = Rows("fit", result.on_fit)
    short = rows.draws - rows.decisions
    by_hand = np.where(short > 0, 0.2 * short, -0.8 * short).mean(axis=0)
    np.testing.assert_allclose(rows.costs, by_hand, rtol=1e-4)
    assert (rows.expected(rows.decisions + 5) > rows.costs).all()


def test_decisions_of_a_way_take_the_place_of_the_calibrated_ones(
    result: stakes.Calibration,
) -> None:
    decided, drawn = np.arange(8.0), np.tile(np.arange(8.0), (10, 1)) + 1
    rows = Rows("new", result.on_fit, decided=decided, drawn=drawn, where="a.csv")
    np.testing.assert_allclose(rows.costs, 0.2, rtol=1e-6)  # each is one short
    rows = replace(rows, others={"the same for all": np.full(8, 4.0)})
    found = answer(rows, gain=False, unit="€")
    assert found.cost == pytest.approx(8 * 0.2)
    assert found.total == 28.0
    assert found.sentence == "effect: 28 in all, for 8 rows of a.csv."
    short = np.arange(8.0) + 1 - 4
    same = np.where(short > 0, 0.2 * short, -0.8 * short).sum()
    assert dict(found.others)["the same for all"] == pytest.approx(same)


def test_the_latest_rows_stand_for_the_present_where_nobody_asks(
    result: stakes.Calibration,
) -> None:
    many = result.assess({"sigma": np.full(40, 10.0)}, new="school")
    found = answer(Rows("held out", many), gain=False, unit=None)
    assert (found.count, found.every, found.rows) == (7, 40, tuple(range(33, 40)))
    assert "the latest 7 of 40 rows held out" in found.sentence
    asked = answer(Rows("new", many, where="t.csv"), gain=False, unit=None)
    assert (asked.count, asked.rows) == (40, tuple(range(7)))


def test_what_came_is_compared_with_what_was_expected(result: stakes.Calibration) -> None:
    rows = Rows("fit", result.on_fit)
    found = quality(rows, None, unseen=False, gain=False, unit=None)
    assert found is not None
    assert found.realised == pytest.approx(result.compare().risk["LCVI"], rel=1e-5)
    assert found.expected == pytest.approx(rows.costs.mean())
    wide, half = found.coverage
    inside = (rows.ranges[:, 0] <= rows.seen) & (rows.seen <= rows.ranges[:, 3])
    assert wide[:2] == (0.9, inside.mean())
    assert (wide[2], half[2]) == pytest.approx((0.9, 0.5), abs=0.01)


BASE = Quality(100, True, ((0.9, 0.91, 0.9), (0.5, 0.52, 0.5)), (), 10.0, 11.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ()),
        ({"coverage": ((0.9, 0.52, 0.9), (0.5, 0.2, 0.5))}, ("The ranges are too narrow",)),
        ({"coverage": ((0.9, 1.0, 0.9), (0.5, 0.8, 0.5))}, ("wider than they need",)),
        # A range of whole numbers holds more than its level, and should.
        ({"coverage": ((0.9, 0.96, 0.95), (0.5, 0.66, 0.65))}, ()),
        ({"expected": 2.79, "realised": 8.71, "error": 1.0}, ("disagree, 3.1 times as much",)),
        ({"expected": 2.79, "realised": 8.71, "error": 5.0}, ()),
        ({"expected": 10.0, "realised": 10.5, "error": 0.01}, ()),
        ({"coverage": (), "shares": (("1", 0.1, 0.3),)}, ("Probabilities are off",)),
        ({"coverage": (), "shares": (("1", 0.1, 0.12),)}, ()),
    ],
)
def test_the_reader_is_warned_where_model_and_outcomes_disagree(
    changes: dict[str, Any], said: tuple[str, ...]
) -> None:
    found = replace(BASE, **changes).warnings
    assert len(found) == len(said)
    assert all(part in warning for part, warning in zip(said, found, strict=True))


def test_quality_is_said_in_words() -> None:
    coverage, cost = replace(BASE, unit="€", coverage=((0.9, 0.52, 0.9),)).sentences
    assert coverage == "The 90 % ranges held 52 % of 100 outcomes that the fit had not seen."
    assert cost.replace("\N{NO-BREAK SPACE}", " ") == (
        "The model expected a decision to cost 10.0 €; it was 11.0 € "
        "(give or take 2.00 €, two standard errors)."
    )
    gained = replace(BASE, gain=True, unseen=False).sentences[-1]
    assert gained.startswith("The model expected a decision to bring 10.0; it brought 11.0")


@pytest.mark.parametrize(
    ("value", "said"), [(1234.5, "1,234"), (0.01234, "0.0123"), (-2.0, "−2.00"), (0.0, "0.00")]
)
def test_amounts_have_three_digits(value: float, said: str) -> None:
    assert shown(value) == said
    assert shown(value, "€") == f"{said}\N{NO-BREAK SPACE}€"


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (-0.31, 0.42, [-0.4, -0.2, 0, 0.2, 0.4, 0.6])],
)
def test_ticks_are_round_and_hold_the_ends(low: float, high: float, ticks: list[float]) -> None:
    found = nice(low, high)
    assert found[0] <= low <= high <= found[-1]
    assert found == pytest.approx(ticks)


def table(rows: int, **changes: Any) -> Decisions:
    return replace(sample_report(rows).decisions, **changes)


def test_the_picture_follows_the_dates_whatever_the_order_of_the_rows() -> None:
    days = tuple(f"2025-01-{day:02d}" for day in (3, 1, 2))
    values = np.array([30.0, 10.0, 20.0])
    found = picture(table(3, labels={"date": days}, calibrated=values, parts=("new", "fit", "fit")))
    assert found is not None
    assert "day by day" in found.caption
    heights = [mark.decision for mark in found.marks]
    assert heights == sorted(heights, reverse=True)  # upwards is less in SVG
    assert [text for _, text in found.parts] == ["new"]
    assert found.marks[1].x < found.parts[0][0] < found.marks[2].x


@pytest.mark.parametrize("width", [420, 900])
@pytest.mark.parametrize("rows", [1, 2, 7, 30, 89])
def test_no_name_below_the_picture_is_cut_off_or_overlaps_another(rows: int, width: int) -> None:
    days = tuple(f"{1 + i % 28:02d}.{1 + i // 28:02d}.2025" for i in range(rows))
    found = picture(table(rows, labels={"Tag": days}), width=width)
    assert found is not None
    ends = [(x - 35, x + 35) for x, _ in found.across]  # ten letters of seven pixels
    assert ends[0][0] >= 0
    assert ends[-1][1] <= width
    assert all(left[1] < right[0] for left, right in itertools.pairwise(ends))


def test_many_rows_without_dates_are_shown_by_group() -> None:
    kinds = tuple("ab"[i % 2] for i in range(200))
    taken = np.array([1.0, 3.0] * 100)
    found = picture(table(200, inputs={"kind": kinds}, calibrated=taken, low=taken, high=taken))
    assert found is not None
    assert (found.kind, len(found.marks)) == ("groups", 2)
    assert "by kind" in found.caption
    assert found.marks[0].decision > found.marks[1].decision


def test_many_rows_of_each_date_are_shown_by_their_means() -> None:
    """As users write dates, in the order of time, whatever label comes first."""
    days = tuple(f"{1 + i // 5:02d}.{2 - i // 50:02d}.2025" for i in range(100))
    dates = tuple(f"2025-{2 - i // 50:02d}-{1 + i // 5:02d}" for i in range(100))
    taken = np.arange(100.0)
    labels = {"town": tuple("abcde" * 20), "Tag": days}
    given = table(100, labels=labels, inputs={"date": dates}, calibrated=taken)
    found = picture(replace(given, parts=("fit",) * 50 + ("new",) * 50))
    assert found is not None
    assert (found.kind, len(found.marks)) == ("groups", 20)
    assert found.caption.endswith("day by day.")
    assert found.across[0][1] == "11.01.2025"
    assert [text for _, text in found.parts] == ["fit"]
    heights = np.array([mark.decision for mark in found.marks])
    assert (np.diff(heights[:10]) < 0).all()
    assert heights[0] < heights[-1]  # the days of January were decided higher
    few = picture(given, most=4)
    assert few is not None
    assert "the latest 4 of 20 dates" in few.caption


def test_marks_lie_where_the_axis_says() -> None:
    found = picture(table(5, calibrated=np.array([10.0, 11.0, 12.0, 13.0, 14.0])))
    assert found is not None
    places, texts = zip(*found.down, strict=True)
    ticks = [float(text) for text in texts]
    at = np.interp([10.0, 11.0, 12.0, 13.0, 14.0], ticks, places)
    np.testing.assert_allclose([mark.decision for mark in found.marks], at, atol=0.1)


def test_probabilities_are_shown_beside_how_often_it_came() -> None:
    chance = np.linspace(0, 1, 100)
    came = (np.arange(100) >= 50).astype(float)
    found = picture(table(100, chances={"0": 1 - chance, "1": chance}, observed=came))
    assert found is not None
    assert (found.kind, len(found.marks)) == ("chances", 10)
    lowest, highest = found.marks[0].decision, found.marks[-1].decision
    ends = {text: place for place, text in found.down}
    assert lowest == pytest.approx(ends["0 %"])
    assert highest == pytest.approx(ends["100 %"])


def test_every_label_names_the_rows_and_is_not_repeated_among_the_inputs() -> None:
    report = sample_report(3, worth=True)
    labels = {"Datum": ("01.02.2025",) * 3, "Filiale": ("Bonn", "Ulm", "Jena")}
    inputs = {"Datum": ("2025-02-01",) * 3, "sunshine": (0.1, 0.2, 0.3)}
    named = replace(report.decisions, labels=labels, inputs=inputs)
    shown = columns(named, None)
    assert [c.title for c in shown if c.name in ("label", "input")] == [*labels, "sunshine"]
    # A phone has room for the first of them.
    assert ["wide" in c.style for c in shown if c.name == "label"] == [False, True]
    page = render(replace(report, decisions=named))
    first = page[page.index('id="answer"') :]
    assert all(f">{word}<" in first[: first.index("</table>")] for word in ("Datum", "Ulm"))


@pytest.mark.parametrize(
    ("realised", "meaning"),
    [(13.0, "no more than chance may explain"), (19.0, "Count on the second.")],
)
def test_two_figures_of_one_cost_are_explained(realised: float, meaning: str) -> None:
    report = sample_report(3, worth=True)
    assert report.quality is not None
    found = replace(report.quality, realised=realised, folds=report.worth)
    said = found.sentences[-1].replace("\N{NO-BREAK SPACE}", " ")
    assert "compared on 40 other outcomes, where a decision cost 12.3 €." in said
    assert f"to judge the way chosen once more: {realised:.1f} €." in said
    assert meaning in said
    assert not any("once more" in each for each in report.quality.sentences)


def test_the_coverage_of_the_same_rows_is_told_once(result: stakes.Calibration) -> None:
    """By the table of ways, where there is one, and not by other draws in another table."""
    report = sample_report(3, worth=True)
    alone = stakes.report.summarise(result, title="t")
    both = stakes.report.summarise(result, title="t", worth=report.worth)
    assert alone.price is not None
    assert both.price is not None
    assert alone.price.coverage
    assert not both.price.coverage
