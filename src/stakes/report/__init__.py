"""A calibration as one self-contained page: what was decided, whether it helped, what it cost.

`summarise` turns a result into a `Report`, a tree of plain values; `render` turns that into HTML.
"""

from stakes.report.content import Chosen, Report, Saving, WayLine, Worth
from stakes.report.rendering import objection, render, write
from stakes.report.summary import summarise

__all__ = [
    "Chosen",
    "Report",
    "Saving",
    "WayLine",
    "Worth",
    "objection",
    "render",
    "summarise",
    "write",
]
