"""A progress bar for long work, silent where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Report: TypeAlias = Callable[[int, float, float], None]
"""(steps done, bound, utility term)."""


@contextmanager
def bar(title: str, total: int, *, show: bool = True) -> Iterator[Report]:
    """Bound, utility term, steps per second and time left, redrawn in place on a terminal."""
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
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn("bound {task.fields[bound]:,.3f}  utility {task.fields[utility]:,.3f}"),
        Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total, bound=float("nan"), utility=float("nan"))
        yield lambda done, bound, utility: progress.update(
            task, completed=done, bound=bound, utility=utility
        )
