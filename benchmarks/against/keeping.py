"""What is stored: every tool's decisions under build/, the results under docs/against.

An interrupted run goes on where it was: what a tool has decided is not computed again.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/against/results.json"
DECISIONS = ROOT / "build/against"


@final
@dataclass(frozen=True, eq=False)
class Decided:
    """By one tool in one contest."""

    decisions: np.ndarray
    """(cost, table, row); nan where the tool does not apply to the cost."""
    seconds: np.ndarray
    """For each cost, tuning and fits included."""
    notes: dict[str, Any]
    """By cost: the settings, or the way that was chosen."""

    def keep(self, contest: str, tool: str) -> None:
        file = _file(contest, tool)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            file,
            decisions=self.decisions,
            seconds=self.seconds,
            notes=np.array(json.dumps(self.notes, default=float)),
        )

    @classmethod
    def kept(cls, contest: str, tool: str) -> "Decided | None":
        file = _file(contest, tool)
        if not file.is_file():
            return None
        with np.load(file) as found:
            return cls(found["decisions"], found["seconds"], json.loads(str(found["notes"])))


def forget(contest: str) -> None:
    for file in (DECISIONS / contest).glob("*.npz"):
        file.unlink()


def results() -> dict[str, Any]:
    """By contest."""
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}


def keep_result(contest: str, result: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({**results(), contest: result}, indent=1) + "\n")


def _file(contest: str, tool: str) -> Path:
    return DECISIONS / contest / f"{re.sub(r'[^a-z0-9]+', '-', tool.lower()).strip('-')}.npz"
