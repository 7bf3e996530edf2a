"""The pictures of a report, drawn by Matplotlib on axes, and figures as parts of a page.

`stakes.plot` draws with the same functions on the axes of a notebook. On the page, a picture is an
SVG element: its words stay words, and its colours follow the page from light to dark.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stakes.fitting import Fit, finite_mean
from stakes.report.actions import ActionTable
from stakes.report.convergence import ScaleOfLosses
from stakes.report.movement import Marginal, Pair, centres, density_of, levels
from stakes.report.what_if import CostLine, Curve
from stakes.study import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours by Okabe and Ito: colour-blind readers can tell them apart, also in grey.
COLORS = {"VI": "#0072b2", "LCVI": "#d55e00", "NUTS": "#999999"}
# The names of methods for readers.
METHODS = {"VI": "Plain VI", "LCVI": "Calibrated", "NUTS": "NUTS"}
# Lines of methods, for readers who see no colours.
DASHES = {"VI": "--", "LCVI": "-", "NUTS": ":"}
# Markers of methods, for the same reason.
MARKERS = {"VI": "o", "LCVI": "^", "NUTS": "s"}
# A grey that stands out on a light and on a dark page.
NEUTRAL = "#767676"
# Text and outcomes, labels and axes, lines of a grid, and ranges of predictions.
INK, QUIET, RULE, PREDICTED = "#1d1d1f", "#5f6166", "#e2e2de", "#00629b"
# Colours that the page sets, by whether it is light, dark or printed.
THEME = {INK: "var(--ink)", QUIET: "var(--quiet)", RULE: "var(--rule)", PREDICTED: "var(--vi-text)"}
# Settings of Matplotlib that suit a page; a user's own style must not change a report.
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 12,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",  # comes with Matplotlib, and is wider than what the page shows
    "font.size": 12,
    "grid.color": RULE,
    "legend.frameon": False,
    "svg.fonttype": "none",  # words stay words
    "text.color": QUIET,
    "text.parse_math": False,  # names are the user's
    "xtick.color": QUIET,
    "ytick.color": QUIET,
}
# Pixels in an inch: Matplotlib's own unit in SVG.
PIXELS = 72
# The width of a letter in pixels, to see how many names there is room for.
LETTER = 7
# Letters of a name that are drawn.
LONGEST = 40
# Draws shown of each method in a pair; the contours are made from many more.
POINTS = 200
# Stretches of steps whose means show a bound without its noise.
STRETCHES = 250
# Cells of a density of two latents along each axis.
CELLS = 40
# Shares of the posterior that the contours enclose.
INSIDE = (0.5, 0.9)
# Marks above which they are drawn as pixels, also in vector formats: files stay small.
DENSE = 5_000


class Improvement(NamedTuple):
    """By how much decisions are better than others, as a share of what those cost.

    Attributes:
        name: of the method or strategy.
        better_by: the share.
        low: lower end of its interval.
        high: upper end.
        color: of the point and its line.
    """

    name: str
    better_by: float
    low: float
    high: float
    color: str


def improvements(comparison: Comparison, colors: Mapping[str, str]) -> list[Improvement]:
    """Return how much better each method is than the base of the comparison."""
    return [
        Improvement(METHODS.get(name, name), color=colors.get(name, INK), **found.numbers)
        for name, found in comparison.reductions.items()
    ]


class Range(NamedTuple):
    """Central ranges of what is predicted, one for each case.

    Attributes:
        width: of the line.
    """

    label: str
    low: np.ndarray
    high: np.ndarray
    width: float


class Mark(NamedTuple):
    """Decisions or outcomes, one for each case."""

    label: str
    marker: str
    color: str
    values: np.ndarray


def draw_improvements(ax: "Axes", rows: Sequence[Improvement]) -> None:
    """Draw points with their intervals, in per cent; zero is marked."""
    ax.axvline(0, color=NEUTRAL, linestyle="--", linewidth=1)
    for number, row in enumerate(rows):
        if np.isfinite([row.low, row.high]).all():
            ends = [100 * row.low, 100 * row.high]
            ax.plot(ends, [number, number], color=row.color, linewidth=3, alpha=0.5)
        ax.plot(100 * row.better_by, number, "o", color=row.color)
    ax.set_yticks(range(len(rows)), [row.name for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)


def draw_cases(ax: "Axes", ranges: Sequence[Range], marks: Sequence[Mark], *, color: str) -> None:
    """Draw decisions and outcomes, case by case, over ranges; the last lie on top.

    Args:
        ax: to draw on.
        ranges: of predictions.
        marks: decisions and outcomes.
        color: of the ranges.
    """
    for label, low, high, width in ranges:
        style: dict[str, Any] = {"color": color, "alpha": 0.35, "linewidth": width}
        ax.vlines(range(len(low)), low, high, label=label, rasterized=len(low) > DENSE, **style)
    for label, marker, ink, values in marks:
        style = {"markersize": 10, "markeredgewidth": 2.5} if marker == "_" else {"markersize": 6}
        if marker == ".":
            style = {"markersize": 8}
        ax.plot(values, marker, color=ink, label=label, rasterized=len(values) > DENSE, **style)


def draw_marginal(ax: "Axes", shown: Marginal) -> None:
    """Draw densities of one latent under each method."""
    for method, density in shown.density.items():
        style: dict[str, Any] = {"linestyle": DASHES[method], "linewidth": 2}
        ax.plot(shown.grid, density, color=COLORS[method], label=METHODS[method], **style)
        if method != "NUTS":
            ax.fill_between(shown.grid, density, color=COLORS[method], alpha=0.08, linewidth=0)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_ylim(bottom=0)


def draw_pair(ax: "Axes", shown: Pair) -> None:
    """Draw two latents together, with contours around most of the draws."""
    # NUTS first, so that it lies behind.
    for method, points in reversed(list(shown.points.items())):
        color = COLORS[method]
        x, y = points[:POINTS].T
        style: dict[str, Any] = {"markersize": 2.5, "markeredgewidth": 0, "alpha": 0.35}
        ax.plot(x, y, MARKERS[method], color=color, **style)
        low, high = np.quantile(points, (0.001, 0.999), axis=0)
        if (low < high).all():
            axes = [centres(*ends, CELLS) for ends in zip(low, high, strict=True)]
            density = density_of(points, axes)
            at = np.unique(levels(density, INSIDE))
            style = {"colors": color, "linestyles": DASHES[method], "linewidths": 1.8}
            ax.contour(*axes, density.T, at, **style)
    ax.set_xlabel(drawable(shown.x))
    ax.set_ylabel(drawable(shown.y))


def draw_band(ax: "Axes", x: np.ndarray, y: np.ndarray, color: str) -> None:
    """Draw a curve in its band: (mean, low, high) at each x."""
    ax.fill_between(x, y[1], y[2], color=color, alpha=0.15, linewidth=0)
    ax.plot(x, y[0], color=color, label="expected, 90 % band")


def draw_curve(ax: "Axes", shown: Curve, line: CostLine) -> None:
    """Draw the expected cost with its band, the decision to take, and the decisions ever made.

    Args:
        ax: to draw on.
        shown: what is known of all decisions.
        line: the curve of one group of cases.
    """
    if shown.labels:
        ax.vlines(shown.decisions, line.low, line.high, color=COLORS["VI"])
        ax.plot(shown.decisions, line.mean, "o", color=COLORS["VI"])
        ax.set_xticks(shown.decisions, [drawable(label) for label in shown.labels])
    else:
        ax.axvspan(*shown.made, color=NEUTRAL, alpha=0.1, linewidth=0)
        draw_band(ax, shown.decisions, np.stack([line.mean, line.low, line.high]), COLORS["VI"])
        ax.set_xlim(shown.decisions[0], shown.decisions[-1])
    ax.axvline(line.decision, color=NEUTRAL, linestyle="--", linewidth=1)
    ax.set_xlabel(drawable(shown.action))
    ax.set_ylabel(f"expected {'gain' if shown.gain else 'cost'}")


def draw_benefit(ax: "Axes", table: ActionTable) -> None:
    """Draw the net benefit over thresholds, by the model and for acting on all cases."""
    x = [100 * line.threshold for line in table.benefits]
    by_model = [line.by_model for line in table.benefits]
    on_all = [line.on_all for line in table.benefits]
    ax.axhline(0, color=NEUTRAL, linestyle=":", linewidth=1)
    ax.plot(x, by_model, color=COLORS["LCVI"], label="by the model")
    ax.plot(x, on_all, color=COLORS["VI"], linestyle="--", label="on all")
    top = max(*by_model, *on_all, 1.0)
    ax.set_ylim(min(*by_model, -0.25 * top), 1.1 * top)
    ax.set_xlabel("threshold probability (%)")
    ax.set_ylabel("net benefit")
    legend_above(ax)


def draw_bound(ax: "Axes", fit: Fit, color: str) -> None:
    """Draw the bound of a fit as means over stretches of steps, which show its way and not the
    noise.

    Args:
        ax: to draw on.
        fit: with the trace of its bound.
        color: of the line.
    """
    width = -(-fit.steps // STRETCHES) or 1
    starts = np.arange(0, fit.steps, width)
    bound = np.array([finite_mean(fit.bound[start : start + width]) for start in starts])
    ax.plot(np.minimum(starts + width, fit.steps), bound, color=color, linewidth=1.5)
    # The first steps climb from far below and would flatten all that follows.
    later = bound[len(bound) // 10 :]
    later = later[np.isfinite(later)]
    if later.size and later.max() > later.min():
        room = 0.08 * (later.max() - later.min())
        ax.set_ylim(later.min() - room, later.max() + room)
    ax.set_xlabel("step")
    ax.set_ylabel("bound")


def draw_losses(ax: "Axes", scale: ScaleOfLosses) -> None:
    """Draw a histogram of losses, with M among them."""
    style: dict[str, Any] = {"color": COLORS["VI"], "alpha": 0.55, "linewidth": 0}
    ax.bar(scale.edges[:-1], scale.counts, np.diff(scale.edges), align="edge", **style)
    ax.axvline(scale.value, color=COLORS["LCVI"], linewidth=2)
    ax.set_xlabel("loss of plain VI's decision")
    ax.set_ylabel("cases")


def legend_above(ax: "Axes") -> None:
    """Put the legend above the axes, in one line."""
    style: dict[str, Any] = {"borderaxespad": 0.2, "handletextpad": 0.5, "columnspacing": 1.5}
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, **style)


def drawable(name: str, most: int = LONGEST) -> str:
    """Return a name as it can be drawn: not too long, and without control characters."""
    name = re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]", "\ufffd", name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def svg(name: str, width: int, height: int, draw: Callable[["Axes"], None]) -> str:
    """Return a picture as an SVG element, always the same for the same picture.

    Args:
        name: a name that no other picture of the page has.
        width: the width in pixels, in which names have their usual size.
        height: the height in pixels.
        draw: a function that draws on the axes.
    """
    from matplotlib import rc_context, style
    from matplotlib.figure import Figure

    own: Any = {**STYLE, "svg.hashsalt": name}
    with style.context("default"), rc_context(own), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that its font lacks: the reader's has them
        figure = Figure((width / PIXELS, height / PIXELS), layout="constrained")
        ax = figure.add_subplot()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,.10g}".replace("-", "−"))
        ax.locator_params(axis="x", nbins=width // 64)
        draw(ax)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 :]
    # What is between tags is escaped, so that no name looks like one.
    body = re.sub(r"<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]+>\s*", lambda tag: _themed(tag[0]), body)
    return f'<svg viewBox="0 0 {width} {height}">{body}'


def _themed(tag: str) -> str:
    """Return a tag with short numbers, in the page's colours, without an id that nobody uses."""
    tag = re.sub(r'<g id="[^"]*"', "<g", " ".join(tag.split()))
    tag = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag)
    return re.sub("|".join(THEME), lambda color: THEME[color[0]], tag)
