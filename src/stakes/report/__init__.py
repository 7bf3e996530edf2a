"""A calibration as one self-contained page: what was decided, whether it helped, what it cost.

`summarise` turns a result into a `Report`, a tree of plain values with a dataclass for each
section; `render` turns that into HTML, with pictures drawn by Matplotlib. The page works without a
network and, but for what it computes anew, without scripts.

`Rows` say which cases the page is about, and what is decided about them.
"""

from stakes.report.content import Origin as Origin
from stakes.report.content import Report as Report
from stakes.report.content import summarise as summarise
from stakes.report.content import unfit as unfit
from stakes.report.movement import before_data as before_data
from stakes.report.movement import density_of as density_of
from stakes.report.movement import moved_latents as moved_latents
from stakes.report.pictures import COLORS as COLORS
from stakes.report.pictures import INK as INK
from stakes.report.pictures import MARKERS as MARKERS
from stakes.report.pictures import METHODS as METHODS
from stakes.report.pictures import Mark as Mark
from stakes.report.pictures import Range as Range
from stakes.report.pictures import draw_band as draw_band
from stakes.report.pictures import draw_cases as draw_cases
from stakes.report.pictures import draw_improvements as draw_improvements
from stakes.report.pictures import draw_marginal as draw_marginal
from stakes.report.pictures import improvements as improvements
from stakes.report.rendering import objection as objection
from stakes.report.rendering import render as render
from stakes.report.rendering import write as write
from stakes.report.rows import Rows as Rows
