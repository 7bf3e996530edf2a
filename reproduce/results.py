"""What the experiments share: settings, results kept on disk as they come, and tables."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

from stakes.errors import InputError
from stakes.host import files
from stakes.host.progress import Tick, parts_of
from stakes.wording import text_table


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


VERSION = 3
"""Of the experiments: results of another version are not resumed."""
QUICK_CAVEAT = "A quick run, much too short to compare with the published figures."


Row: TypeAlias = dict[str, Any]
"""The figures of one part of an experiment, as JSON has them."""


@final
class Results(dict[str, Row]):
    """Rows by name, kept in a file after each, so that an interrupted experiment can resume."""

    def __init__(self, folder: Path, setting: dict[str, Any]) -> None:
        self.folder, self._setting = folder, {**setting, "version": VERSION}
        self._path = folder / "results.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            super().__init__(self._kept() if self._path.exists() else {})
            self._write()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(
                f"Results cannot be written to {folder} ({reason}); choose another folder with "
                f"`--out`."
            ) from error

    def __setitem__(self, name: str, row: Row) -> None:
        super().__setitem__(name, row)
        self._write()

    def _kept(self) -> dict[str, Row]:
        try:
            content = json.loads(self._path.read_text())
            before, rows = dict(content["setting"]), dict(content["rows"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self._path} is not a results file that can be resumed ({error}); move it "
                f"away or choose another folder with `--out`."
            ) from error
        names = {*before, *self._setting}
        changed = sorted(k for k in names if before.get(k) != self._setting.get(k))
        if changed:
            raise InputError(
                f"{self._path} holds results of another setting ({', '.join(changed)} "
                f"differ). Choose another folder with `--out`, or remove it."
            )
        return rows

    def _write(self) -> None:
        content = {"setting": self._setting, "rows": self}
        files.write(self._path, f"{json.dumps(content, indent=1)}\n".encode())


@contextmanager
def steps_of(title: str, total: int) -> Iterator[Tick]:
    """One bar with a time estimate over the parts of an experiment; lines if not on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        done = 0

        def line(what: str) -> None:
            nonlocal done
            done += 1
            console.print(f"{title} {done}/{total}: {what}", highlight=False, soft_wrap=True)

        yield line
        return
    with parts_of(title, total) as tick:
        yield tick


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
