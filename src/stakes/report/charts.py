"""The charts of a report, drawn by Bokeh: what they show is set here, how they look in the page.

The user's text enters a chart only as `PlainText`: Bokeh would take `$$...$$` for a formula.
Colours of axes and grid are set in the page, by whether it is light, dark or printed.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from bokeh.core.types import ID
from bokeh.embed import json_item
from bokeh.models import BasicTickFormatter, ColumnDataSource, PlainText
from bokeh.models.annotations import BoxAnnotation, Legend, LegendItem, Span
from bokeh.plotting import figure
from contourpy import contour_generator

from stakes.report.action_table import ActionTable
from stakes.report.content import (
    COLORS,
    METHODS,
    Marginal,
    Pair,
    Report,
    ScaleOfLosses,
    Trace,
    Verdict,
    WhatIf,
)
from stakes.report.curve import Curve, Line
from stakes.report.density import centres, levels, smoothed

DASHES = {"VI": "dashed", "LCVI": "solid", "NUTS": "dotted"}
MARKERS = {"VI": "circle", "LCVI": "triangle", "NUTS": "square"}
NEUTRAL = "#767676"
"""Stands out on a light and on a dark page."""
POINTS = 200
"""Draws shown of each method in a pair; the contours are made from many more."""
CELLS = 40
INSIDE = (0.5, 0.9)
"""How much of the posterior the contours enclose."""

Chart: TypeAlias = dict[str, Any]
"""As Bokeh's JavaScript takes it."""
Plot: TypeAlias = Any
"""A figure; Bokeh's types leave out much of what its figures take."""


def charts(report: Report) -> list[Chart]:
    """The charts, each with the element of the page that it is drawn into."""
    return [dict(json_item(plot, ID(target))) for target, plot in _plots(report)]


def _plots(report: Report) -> Iterator[tuple[str, Plot]]:
    if len(_with_intervals(report.verdict)) > 0:
        yield "chart-verdict", _reduction(report.verdict)
    if report.what_if is not None:
        yield "chart-what-if", _what_if(report.what_if)
    if report.actions is not None and report.actions.benefits:
        yield "chart-benefit", _benefit(report.actions)
    for i, line in enumerate(report.curve.lines if report.curve else ()):
        assert report.curve is not None
        yield f"chart-curve-{i}", _curve(report.curve, line)
    for i, marginal in enumerate(report.movement.marginals):
        yield f"chart-marginal-{i}", _marginal(marginal)
    for i, pair in enumerate(report.movement.pairs):
        yield f"chart-pair-{i}", _pair(pair)
    for i, trace in enumerate(report.convergence.traces):
        yield f"chart-trace-{i}", _trace(trace)
    if report.convergence.scale is not None:
        yield "chart-scale", _scale(report.convergence.scale)


def _figure(height: int, **options: Any) -> Plot:
    bare: dict[str, Any] = {"toolbar_location": None, "tools": ""}  # not all typed by Bokeh
    plot: Plot = figure(
        height=height,
        sizing_mode="stretch_width",
        **bare,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_right=12,
        **options,
    )
    plot.axis.minor_tick_line_color = None
    if "y_range" not in options and "y_axis_type" not in options:
        plot.yaxis.formatter = BasicTickFormatter(power_limit_high=8)
    plot.axis.major_label_text_font_size = "12px"
    plot.axis.axis_label_text_font_size = "12px"
    plot.axis.axis_label_text_font_style = "normal"
    plot.xgrid.grid_line_color = None
    return plot


def _with_intervals(verdict: Verdict) -> list[tuple[str, float, tuple[float, float]]]:
    return [
        (risk.method, risk.reduction, risk.interval)
        for risk in verdict.risks
        if risk.reduction is not None
        and risk.interval is not None
        and np.isfinite([risk.reduction, *risk.interval]).all()
    ]


def _reduction(verdict: Verdict) -> Plot:
    """How much better than plain VI, with the interval."""
    shown = _with_intervals(verdict)[::-1]
    names = [METHODS[method] for method, _, _ in shown]
    plot = _figure(60 + 34 * len(shown), y_range=names)
    ends = [0.0, *(100 * end for _, _, interval in shown for end in interval)]
    room = 0.06 * (max(ends) - min(ends)) or 1.0
    plot.x_range.start, plot.x_range.end = min(ends) - room, max(ends) + room
    plot.ygrid.grid_line_color = None
    plot.yaxis.major_tick_line_color = None
    plot.yaxis.axis_line_color = None
    plot.xaxis.axis_label = f"improvement of the {verdict.quantity} over plain VI (%)"
    _mark(plot, 0.0, NEUTRAL, line_dash="dashed")
    for name, (method, reduction, (low, high)) in zip(names, shown, strict=True):
        color = COLORS[method]
        source = ColumnDataSource({"y": [name], "low": [100 * low], "high": [100 * high]})
        plot.hbar(
            y="y",
            left="low",
            right="high",
            height=0.12,
            source=source,
            color=color,
            line_color=None,
        )
        plot.scatter(
            [100 * reduction], [name], size=12, color=color, line_color=color, marker="circle"
        )
    return plot


def _what_if(what_if: WhatIf) -> Plot:
    """The lines and the marker are computed and filled in by the page."""
    # Away from the c of the fit the loss of decisions made for it grows exponentially.
    plot = _figure(280, **({"y_axis_type": "log"} if what_if.kind == "linex" else {}))
    handle = what_if.handles[0]
    plot.xaxis.axis_label = handle.name
    plot.yaxis.axis_label = "expected cost"
    ends = [handle.value / handle.span, handle.value * handle.span]
    lines = {
        "what-if-best": (COLORS["LCVI"], "solid", "new decisions"),
        "what-if-kept": (NEUTRAL, "dashed", "decisions as they are"),
    }
    items = []
    for name, (color, dash, label) in lines.items():
        source = ColumnDataSource({"x": ends, "y": [1.0, 2.0]}, name=name)
        line = plot.line("x", "y", source=source, color=color, line_dash=dash, line_width=2)
        items.append(LegendItem(label=label, renderers=[line]))
    here: dict[str, Any] = {"x": [handle.value], "y": [1.0], "color": [NEUTRAL]}
    source = ColumnDataSource(here, name="what-if-here")
    plot.scatter("x", "y", source=source, size=10, color="color", line_color="color")
    _mark(plot, handle.value, NEUTRAL, line_dash="dotted")
    plot.add_layout(_legend(items), "above")
    return plot


def _benefit(table: ActionTable) -> Plot:
    """Net benefit over thresholds; acting on all soon costs more than it brings."""
    plot = _figure(240)
    plot.xaxis.axis_label = "threshold probability (%)"
    plot.yaxis.axis_label = "net benefit"
    percent = [100 * each.threshold for each in table.benefits]
    by_model, on_all = (
        [getattr(each, name) for each in table.benefits] for name in ("by_model", "on_all")
    )
    top = max(*by_model, *on_all, 1.0)
    plot.y_range.start, plot.y_range.end = min(*by_model, -0.25 * top), 1.1 * top
    items = []
    for label, values, color, dash in (
        ("by the model", by_model, COLORS["LCVI"], "solid"),
        ("on all", on_all, COLORS["VI"], "dashed"),
    ):
        line = plot.line(percent, values, color=color, line_dash=dash, line_width=2)
        items.append(LegendItem(label=label, renderers=[line]))
    plot.add_layout(Span(location=0, dimension="width", line_color=NEUTRAL, line_dash="dotted"))
    plot.add_layout(_legend(items), "above")
    return plot


def _curve(curve: Curve, line: Line) -> Plot:
    """Expected cost with its band, the decision to take, and the decisions ever made."""
    plot = _figure(260)
    plot.xaxis.axis_label = PlainText(text=curve.action)
    plot.yaxis.axis_label = f"expected {'gain' if curve.gain else 'cost'}"
    color = COLORS["VI"]
    if curve.labels:
        plot.xaxis.ticker = curve.decisions.tolist()
        plot.xaxis.major_label_overrides = {
            int(place): label for place, label in zip(curve.decisions, curve.labels, strict=True)
        }
        plot.segment(curve.decisions, line.low, curve.decisions, line.high, color=color)
        plot.scatter(curve.decisions, line.mean, size=7, color=color)
    else:
        low, high = curve.made
        plot.add_layout(BoxAnnotation(left=low, right=high, fill_color=NEUTRAL, fill_alpha=0.1))
        plot.varea(curve.decisions, line.low, line.high, color=color, alpha=0.2)
        plot.line(curve.decisions, line.mean, color=color, line_width=2)
        plot.x_range.start, plot.x_range.end = curve.decisions[0], curve.decisions[-1]
    _mark(plot, line.decision, NEUTRAL, line_dash="dashed")
    return plot


def _marginal(marginal: Marginal) -> Plot:
    plot = _figure(180)
    plot.yaxis.visible = False
    plot.ygrid.grid_line_color = None
    plot.y_range.start = 0
    for method, density in marginal.density.items():
        style = {"color": COLORS[method], "line_dash": DASHES[method], "line_width": 2}
        plot.line(marginal.grid, density, **style)
        if method != "NUTS":
            plot.varea(marginal.grid, 0, density, color=COLORS[method], alpha=0.08)
    return plot


def _pair(pair: Pair) -> Plot:
    plot = _figure(260)
    plot.xaxis.axis_label = PlainText(text=pair.x)
    plot.yaxis.axis_label = PlainText(text=pair.y)
    # NUTS first, so that it lies behind.
    for method, points in reversed(list(pair.points.items())):
        color = COLORS[method]
        x, y = points[:POINTS].T
        plot.scatter(x, y, size=3, color=color, line_color=None, alpha=0.35, marker=MARKERS[method])
        for line in _contours(points):
            plot.line(line[:, 0], line[:, 1], color=color, line_dash=DASHES[method], line_width=1.8)
    return plot


def _contours(points: np.ndarray) -> Iterator[np.ndarray]:
    """Lines around the densest parts of the posterior."""
    low, high = np.quantile(points, (0.001, 0.999), axis=0)
    if not (low < high).all():
        return
    x, y = (centres(*ends, CELLS) for ends in zip(low, high, strict=True))
    density = smoothed(points, [x, y])
    lines: Any = contour_generator(x, y, density.T)
    for level in levels(density, INSIDE):
        yield from lines.lines(level)


def _trace(trace: Trace) -> Plot:
    plot = _figure(220)
    plot.xaxis.axis_label = "step"
    plot.yaxis.axis_label = "bound"
    # The first steps climb from far below and would flatten all that follows.
    later = trace.bound[len(trace.bound) // 10 :]
    later = later[np.isfinite(later)]
    if later.size and later.max() > later.min():
        room = 0.08 * (later.max() - later.min())
        plot.y_range.start, plot.y_range.end = later.min() - room, later.max() + room
    plot.line(trace.steps, trace.bound, color=COLORS[trace.method], line_width=1.5)
    return plot


def _scale(scale: ScaleOfLosses) -> Plot:
    plot = _figure(220)
    plot.y_range.start = 0
    plot.xaxis.axis_label = "loss of plain VI's decision"
    plot.yaxis.axis_label = "instances"
    plot.quad(
        left=scale.edges[:-1],
        right=scale.edges[1:],
        bottom=0,
        top=scale.counts,
        color=COLORS["VI"],
        alpha=0.55,
        line_color=None,
    )
    _mark(plot, scale.value, COLORS["LCVI"], line_width=2)
    return plot


def _mark(plot: Plot, x: float, color: str, **line: Any) -> None:
    plot.add_layout(Span(location=x, dimension="height", line_color=color, **line))


def _legend(items: list[LegendItem]) -> Plot:
    style: dict[str, Any] = {
        "orientation": "horizontal",
        "border_line_color": None,
        "background_fill_color": None,
        "label_text_font_size": "12px",
        "padding": 0,
        "spacing": 18,
        "margin": 4,
    }
    return Legend(items=items, **style)
