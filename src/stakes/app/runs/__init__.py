"""Runs: jobs carried out in a folder, which can be resumed, reopened and used to decide.

A run folder holds arrays, text and JSON only: no code, no pickles. Every byte is covered by a
checksum, and every file is replaced as a whole.

`opening` makes and opens runs, `execution` carries them out, `journal` and `folder` keep them.
`solution` has the fits and what decides by them; `deciding` and `reporting` use it for new rows,
and `outputs` writes files. `checking` says what a run will take.
"""

from stakes.app.runs.checking import Checked, checked
from stakes.app.runs.deciding import decide_file
from stakes.app.runs.execution import carry_out, rewrite_report
from stakes.app.runs.folder import DECISIONS, DRAWS, REPORT, RunFolder, check_free
from stakes.app.runs.manifest import Ending, Manifest, unsettled
from stakes.app.runs.opening import Run, begin, reopen, restore
from stakes.app.runs.solution import Solution

__all__ = [
    "DECISIONS",
    "DRAWS",
    "REPORT",
    "Checked",
    "Ending",
    "Manifest",
    "Run",
    "RunFolder",
    "Solution",
    "begin",
    "carry_out",
    "check_free",
    "checked",
    "decide_file",
    "reopen",
    "restore",
    "rewrite_report",
    "unsettled",
]
