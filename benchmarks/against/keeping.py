"""What is stored: every tool's decisions under build/, the results under docs/against.

An interrupted run goes on where it was: what a tool has decided is not computed again.
"""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/against/results.json"
DECISIONS = ROOT / "build/against"
COMPILED = ROOT / "build/compiled"


@final
@dataclass(frozen=True, eq=False)
class Decided:
    """By one tool in one contest."""

    decisions: np.ndarray
    """(cost, table, row), or (table, row) under one cost; nan where the tool does not apply."""
    seconds: np.ndarray
    """For each cost, tuning and fits included."""
    notes: dict[str, Any]
    """By cost: the settings, or the way that was chosen."""

    def keep(self, contest: str, tool: str) -> None:
        file = _file(contest, tool)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            file,
            tool=np.array(tool),
            decisions=self.decisions,
            seconds=self.seconds,
            notes=np.array(json.dumps(self.notes, default=float)),
        )

    @classmethod
    def kept(cls, contest: str, tool: str) -> "Decided | None":
        file = _file(contest, tool)
        return cls._read(file)[1] if file.is_file() else None

    @classmethod
    def kept_in(cls, folder: str) -> dict[str, "Decided"]:
        """By tool, in the order in which they were kept."""
        files = sorted((DECISIONS / folder).glob("*.npz"), key=lambda file: file.stat().st_mtime_ns)
        return dict(cls._read(file) for file in files)

    @classmethod
    def _read(cls, file: Path) -> tuple[str, "Decided"]:
        with np.load(file) as found:
            notes = json.loads(str(found["notes"]))
            return str(found["tool"]), cls(found["decisions"], found["seconds"], notes)


def forget(contest: str) -> None:
    shutil.rmtree(DECISIONS / contest, ignore_errors=True)


def results() -> dict[str, Any]:
    """By contest."""
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}


def keep_result(contest: str, result: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({**results(), contest: result}, indent=1) + "\n")


def file_of(name: str) -> str:
    """A name of a file for it."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def _file(contest: str, tool: str) -> Path:
    return DECISIONS / contest / f"{file_of(tool)}.npz"
