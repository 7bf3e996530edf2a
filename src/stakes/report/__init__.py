"""A calibration as one self-contained page: what was decided, whether it helped, what it cost.

`summarise` turns a result into a `Report`, a tree of plain values; `render` turns that into HTML.
"""

from stakes.report.content import COLORS, METHODS, Report
from stakes.report.density import smoothed
from stakes.report.movement import before_data
from stakes.report.movement import movement as moved_latents
from stakes.report.rendering import objection, render, write
from stakes.report.rows import Rows
from stakes.report.summary import summarise, unfit
from stakes.report.worth import Saving, WayLine, Worth

__all__ = [
    "COLORS",
    "METHODS",
    "Report",
    "Rows",
    "Saving",
    "WayLine",
    "Worth",
    "before_data",
    "moved_latents",
    "objection",
    "render",
    "smoothed",
    "summarise",
    "unfit",
    "write",
]
