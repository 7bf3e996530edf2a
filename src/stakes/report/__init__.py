"""A calibration as one self-contained page: what was decided, whether it helped, what it cost.

`summarise` turns a result into a `Report`, a tree of plain values; `render` turns that into HTML.
"""

from stakes.report.content import Origin, Report, summarise, unfit
from stakes.report.movement import before_data, density_of, moved_latents
from stakes.report.pictures import (
    COLORS,
    INK,
    MARKERS,
    METHODS,
    Improvement,
    Mark,
    Range,
    draw_band,
    draw_cases,
    draw_improvements,
    draw_marginal,
)
from stakes.report.rendering import objection, render, write
from stakes.report.rows import Rows
from stakes.report.worth import Worth

__all__ = [
    "COLORS",
    "INK",
    "MARKERS",
    "METHODS",
    "Improvement",
    "Mark",
    "Origin",
    "Range",
    "Report",
    "Rows",
    "Worth",
    "before_data",
    "density_of",
    "draw_band",
    "draw_cases",
    "draw_improvements",
    "draw_marginal",
    "moved_latents",
    "objection",
    "render",
    "summarise",
    "unfit",
    "write",
]
