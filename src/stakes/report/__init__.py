"""A calibration as one self-contained page: what was decided, whether it helped, what it cost.

`summarise` turns a result into a `Report`, a tree of plain values; `render` turns that into HTML.
"""

from stakes.report.content import Report
from stakes.report.rendering import objection, render, write
from stakes.report.rows import Rows
from stakes.report.summary import summarise
from stakes.report.worth import Saving, WayLine, Worth

__all__ = [
    "Report",
    "Rows",
    "Saving",
    "WayLine",
    "Worth",
    "objection",
    "render",
    "summarise",
    "write",
]
