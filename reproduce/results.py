"""What the experiments share: settings, results kept on disk as they come, and tables."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

from stakes.errors import InputError
from stakes.host import files
from stakes.host.text_tables import text_table


@final
@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to run an experiment.

    Args:
        folder: where its results and figures go; finished parts found there are not run again.
        data: a copy of the Last.fm matrix; without it the shipped retail matrix is used.
        seeds: how many random starts.
        quick: a small version that shows everything works, not what the paper found.
        as_published: also run the paper's own estimator, nested sampling with one draw of y.
    """

    folder: Path
    data: Path | None = None
    seeds: int = 10
    quick: bool = False
    as_published: bool = False


VERSION = 2
"""Of the experiments: results of another version are not resumed."""
QUICK_CAVEAT = "A quick run, much too short to compare with the published figures."


@final
class Store:
    """Rows of results by name, written after each so that an interrupted run can be resumed."""

    def __init__(self, folder: Path, setting: dict[str, Any]) -> None:
        self.folder = folder
        self._path = folder / "results.json"
        self._content: dict[str, Any] = {"setting": setting, "rows": {}}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                self._content = self._resumed(setting)
            self._write()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"Results cannot be written to {folder} ({reason}); choose another folder with "
                f"`--out`."
            ) from error

    def _resumed(self, setting: dict[str, Any]) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text())
            before, rows = dict(found["setting"]), dict(found["rows"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self._path} is not a results file that can be resumed ({error}); move it "
                f"away or choose another folder with `--out`."
            ) from error
        if before != setting:
            changed = [k for k in {*before, *setting} if before.get(k) != setting.get(k)]
            raise InputError(
                f"{self._path} holds results of another setting ({', '.join(sorted(changed))} "
                f"differ). Choose another folder with `--out`, or remove it."
            )
        return {"setting": setting, "rows": rows}

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return dict(self._content["rows"])

    def __contains__(self, name: str) -> bool:
        return name in self._content["rows"]

    def put(self, name: str, row: dict[str, Any]) -> None:
        self._content["rows"][name] = row
        self._write()

    def _write(self) -> None:
        files.write(self._path, f"{json.dumps(self._content, indent=1)}\n".encode())


class Finding(NamedTuple):
    """What an experiment comes down to, for the summary of all of them."""

    what: str
    measured: str
    published: str = ""


@final
@dataclass(frozen=True)
class PaperTable:
    """Lines of text under a head, for people; results.json has the numbers."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    caveats: Sequence[str] = ()
    """What keeps these figures from being compared with the published ones."""

    def __str__(self) -> str:
        rows = [self.head, *self.lines]
        columns = zip(*self.lines, strict=True)
        numeric = {
            i for i, cells in enumerate(columns) if all(re.match(r"-?\d|not |$", c) for c in cells)
        }
        head, *lines = text_table(rows, right=numeric)
        rule = "-" * max(map(len, (head, *lines)))
        return "\n".join([self.title, rule, head, rule, *lines, rule, *self._remarks])

    def markdown(self) -> str:
        rows = [self.head, ["---"] * len(self.head), *self.lines]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([f"**{self.title}**", "", *lines, "", *self._remarks]) + "\n"

    @property
    def _remarks(self) -> list[str]:
        return [*self.notes, *self.caveats]


def summary(tables: Mapping[str, PaperTable]) -> PaperTable:
    """One table of what the experiments found, by their names."""
    lines = [[name, *finding] for name, table in tables.items() for finding in table.findings]
    caveats = dict.fromkeys(caveat for table in tables.values() for caveat in table.caveats)
    head = ["experiment", "what", "measured", "published"]
    return PaperTable("What the experiments found", head, lines, caveats=list(caveats))
