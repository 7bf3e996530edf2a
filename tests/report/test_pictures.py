"""Pictures as parts of a page."""

import re
from collections import Counter

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from report_samples import report_on_actions, report_on_prices, sample_report

from stakes.report import render
from stakes.report.movement import Pair
from stakes.report.pictures import INK, Mark, Range, draw_cases, draw_pair, drawable, svg


def draw_named(ax, name="$x_1$ <b>&amp;</b>"):
    ax.plot([0.0, 1.0], [1.0, 1e6], color=INK)
    ax.set_xlabel(name)


def test_a_picture_is_always_the_same_and_leaves_settings_alone():
    first = svg("a", 320, 200, draw_named)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        assert svg("a", 320, 200, draw_named) == first
        assert dict(mpl.rcParams) == before
    assert not re.search(r"<metadata|<!--|<style|\d{4}-\d{2}-\d{2}T", first)


def test_names_stay_words_and_are_escaped():
    assert ">$x_1$ &lt;b&gt;&amp;amp;&lt;/b&gt;<" in svg("a", 320, 200, draw_named)


def test_colours_are_those_of_the_page():
    drawn = svg("a", 320, 200, draw_named)
    assert "stroke: var(--ink)" in drawn
    assert "var(--quiet)" in drawn
    assert INK not in drawn


@pytest.mark.parametrize("report", [sample_report, report_on_actions, report_on_prices])
def test_no_two_elements_of_a_page_have_one_id(report):
    page = render(report(40))
    ids = Counter(re.findall(r'\sid="([^"]*)"', page))
    assert max(ids.values()) == 1
    assert set(re.findall(r'(?:url\(|xlink:href=")#([^")]*)', page)) <= set(ids)


@pytest.mark.parametrize("y", [np.zeros(300), np.arange(300.0)], ids=["constant", "collinear"])
def test_pairs_without_a_spread_are_drawn(y):
    pair = Pair("x", "y", {"VI": np.stack([np.arange(300), y], axis=1)}, {"VI": 0.0})
    assert "<use" in svg("pair", 320, 260, lambda ax: draw_pair(ax, pair))


def test_very_many_marks_are_drawn_as_pixels():
    values = np.random.default_rng(0).normal(size=100_000)

    def draw(ax):
        marks = [Mark("decision", "o", INK, values)]
        draw_cases(ax, [Range("90 % range", values - 1, values + 1, 1.0)], marks, color=INK)

    assert len(svg("many", 900, 300, draw)) < 200_000


def test_a_page_about_many_rows_has_small_pictures():
    pictures = re.findall(r"<svg.*?</svg>", render(sample_report(100_000)), re.DOTALL)
    assert sum(map(len, pictures)) < 400_000


def test_names_that_cannot_be_drawn_are_mended():
    assert drawable("a\x00b\ud800c\n") == "a\ufffdb\ufffdc\ufffd"
    assert drawable("x" * 50, 24) == "x" * 23 + "…"
    figure = Figure()
    figure.add_subplot().set_xlabel(drawable("\ud800"))
    figure.draw_without_rendering()
