"""A progress bar for long work, silent where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Report: TypeAlias = Callable[[int, float, float], None]
"""(steps done, bound, utility term)."""


Share: TypeAlias = Callable[[float], None]
"""Call with the share that is done, from 0 to 1."""

_whole: ContextVar[Share | None] = ContextVar("_whole", default=None)


@contextmanager
def part_of(whole: Share) -> Iterator[None]:
    """Work inside has no bar of its own: it tells its share to that of the whole."""
    before = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(before)


@contextmanager
def bar(title: str, total: int, *, show: bool = True) -> Iterator[Report]:
    """Bound, utility term, steps per second and time left, redrawn in place on a terminal."""
    whole = _whole.get()
    if whole is not None:
        yield lambda done, bound, utility: whole(done / total)
        return
    if not (show and sys.stderr.isatty()):
        yield lambda done, bound, utility: None
        return

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:,.0f} steps/s")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn("{task.fields[state]}"),
        Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total, state="compiling")

        def report(done: int, bound: float, utility: float) -> None:
            state = f"bound {bound:,.2f}" + (f" utility {utility:,.2f}" if utility else "")
            progress.update(task, completed=done, state=state)

        yield report


@contextmanager
def waiting(what: str, *, show: bool = True) -> Iterator[None]:
    """Says what goes on in a stretch of work whose length is not known."""
    if _whole.get() is not None or not (show and sys.stderr.isatty()):
        yield
        return

    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
