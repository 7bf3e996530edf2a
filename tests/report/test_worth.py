"""What decisions are worth, in words."""

from dataclasses import replace
from typing import Any

import pytest
from report_samples import sample_report

from stakes.report.worth import Quality, money, worth_in_words
from stakes.study import Saving

BASE = Quality(100, True, ((0.9, 0.91, 0.9), (0.5, 0.52, 0.5)), (), 10.0, 11.0, 1.0)


@pytest.mark.parametrize(
    ("each", "low", "high", "said"),
    [
        (2.0, 1.0, 3.0, "That is 2.00 better than today's decisions (95 % interval 1.00 to 3.00)"),
        (-2.0, -3.0, -1.0, "2.00 worse than today's decisions (95 % interval 1.00 to 3.00)"),
        (0.5, -1.0, 2.0, "Against today's decisions it is 0.500 better, which may be chance"),
        (-0.5, -2.0, 1.0, "it is 0.500 worse, which may be chance (95 % interval −2.00 to 1.00)"),
        (0.5, None, None, "it is 0.500 better, which may be chance."),
    ],
)
def test_words_on_what_a_decision_saves_follow_the_numbers(
    each: float, low: float | None, high: float | None, said: str
) -> None:
    choice = sample_report(3, worth=True).choice
    assert choice is not None
    saved = [Saving("today's decisions", each, low, high)]
    _, sentence = worth_in_words(replace(choice, saved=saved))
    assert said in sentence


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
        ({"coverage": (), "shares": (("1", 0.1, 0.3),)}, ("probabilities are off for 1",)),
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
    assert money(value) == said
    assert money(value, "€") == f"{said}\N{NO-BREAK SPACE}€"


@pytest.mark.parametrize(
    ("realised", "meaning"),
    [(13.0, "Chance may explain"), (19.0, "Rely on the second figure.")],
)
def test_two_figures_of_one_cost_are_explained(realised: float, meaning: str) -> None:
    report = sample_report(3, worth=True)
    assert report.quality is not None
    found = replace(report.quality, realised=realised, folds=report.choice)
    said = found.sentences[-1].replace("\N{NO-BREAK SPACE}", " ")
    assert "compared on 40 other outcomes, where a decision cost 12.3 € on average." in said
    assert f"to judge the chosen strategy once more: {realised:.1f} €." in said
    assert meaning in said
    assert not any("once more" in each for each in report.quality.sentences)
