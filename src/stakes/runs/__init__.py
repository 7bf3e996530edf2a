"""Runs: a spec carried out in a folder, gone on with, reopened, and asked for decisions."""

from stakes.runs.deciding import decide_file
from stakes.runs.opening import Reopened, reopen, restore
from stakes.runs.signals import Stopper, listening
from stakes.runs.working import begin, carry_out, rewrite_report

__all__ = [
    "Reopened",
    "Stopper",
    "begin",
    "carry_out",
    "decide_file",
    "listening",
    "reopen",
    "restore",
    "rewrite_report",
]
