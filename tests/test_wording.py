"""Numbers in words."""

import math

import numpy as np
import pytest

from stakes.wording import (
    Printout,
    amount,
    change_span,
    count,
    footnotes,
    percent,
    percent_span,
)


@pytest.mark.parametrize(
    ("share", "decimals", "words"),
    [
        (0.1234, 1, "12.3 %"),
        (0.1234, 0, "12 %"),
        (-0.01234, 2, "-1.23 %"),
        (-0.0001, 1, "0.0 %"),
        (np.float32(0.5), 0, "50 %"),
        (math.nan, 1, "?"),
        (None, 1, "?"),
    ],
)
def test_a_share_is_written_in_per_cent(share, decimals, words):
    assert percent(share, decimals, unknown="?") == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.01, 0.056, "-1.0 to 5.6 %"),
        (-math.inf, 0.056, "at most 5.6 %"),
        (0.01, math.inf, "at least 1.0 %"),
        (None, 0.056, "?"),
        (0.01, math.nan, "?"),
        (-math.inf, math.inf, "?"),
    ],
)
def test_an_end_that_is_infinite_is_left_open(low, high, words):
    assert percent_span(low, high, unknown="?") == words


def test_one_is_singular():
    assert (count(1, "row"), count(1200, "row"), count(0, "class", "classes")) == (
        "1 row",
        "1,200 rows",
        "0 classes",
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.004, 0.056, "95 % interval 0.4 to 5.6 %"),
        (-0.017, 0.08, "95 % interval from 1.7 % higher to 8.0 % lower"),
        (-math.inf, 0.109, "95 % interval up to 10.9 % lower"),
        (-0.02, math.inf, "95 % interval up to 2.0 % higher"),
        (0.02, math.inf, "95 % interval at least 2.0 %"),
        (-math.inf, math.inf, "no 95 % interval: 2 are too few"),
    ],
)
def test_an_interval_is_said_in_the_direction_of_its_sentence(low, high, words):
    assert change_span(low, high, ("lower", "higher"), "2 are too few") == words


def test_money_has_two_digits_and_its_unit():
    assert (amount(1234.5, "€"), amount(1234.567), amount(-0.5, "kg")) == (
        "1,234.50 €",
        "1235",
        "-0.50 kg",
    )
    assert (amount(3.0), amount(0.0), amount(float("nan"))) == ("3.000", "0.000", "nan")


def test_a_footnote_has_a_mark_only_beside_another():
    assert footnotes("interval", ["a", "", "a"]) == ({"a": ""}, ["interval: a."])
    marks, lines = footnotes("interval", map(str, range(12)))
    assert (marks["0"], marks["8"], marks["11"]) == ("¹", "⁹", "⁹")
    assert lines[1] == "² interval: 1."
    assert footnotes("interval", [""]) == ({}, [])


SHOWN = Printout(
    [["", "cost"], ["plain <VI>", "1.5"], ["NUTS", "12"]],
    right={1},
    notes=["A note & more."],
    sentences=["Decide."],
    chosen="NUTS",
)


def test_a_printout_is_a_table_its_notes_and_its_sentences():
    assert SHOWN.text.splitlines() == [
        "               cost",
        "  plain <VI>    1.5",
        "> NUTS           12",
        "",
        "A note & more.",
        "",
        "Decide.",
    ]
    assert Printout([], sentences=["Nothing."]).text == "Nothing."


def test_a_printout_escapes_what_a_notebook_would_read_as_html():
    page = SHOWN.html
    assert '<td style="text-align: left">plain &lt;VI&gt;</td>' in page
    assert '<td style="text-align: right"><strong>12</strong></td>' in page
    assert page.endswith("<p>Decide.</p><p><small>A note &amp; more.</small></p>")
