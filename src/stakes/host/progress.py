"""Progress of long work: bars, shown only on a terminal, and what is told of its parts.

Work says what it begins with (`begin`) and how far it is (`bar`). Who asked for the work decides
what becomes of that: it may listen (`report_to`), show one bar for many parts (`parts_of`,
`count_pieces`), or keep the parts quiet (`part_of`). Context variables carry it, so that no
function in between has an argument for it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress

Tell: TypeAlias = Callable[[int, float, float], None]
"""(steps done, bound, utility term)."""
Share: TypeAlias = Callable[[float], None]
"""Call with the share that is done, from 0 to 1."""
Tick: TypeAlias = Callable[[str], None]
"""Call with what is about to be done."""

_whole: ContextVar[Share | None] = ContextVar("_whole", default=None)
_listeners: ContextVar[tuple[Callable[[str], None], ...]] = ContextVar("_listeners", default=())


def begin(what: str) -> None:
    """Tell listeners what is about to be done, unless it is part of a whole that tells it."""
    if _whole.get() is None:
        for tell in _listeners.get():
            tell(what)


@contextmanager
def report_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Work inside tells the listener, and those around it, what it begins with."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


@contextmanager
def part_of(whole: Share = lambda share: None) -> Iterator[None]:
    """Keep work inside quiet: it has no bar of its own, and tells nothing.

    Args:
        whole: called with the share of this part that is done, from 0 to 1.
    """
    token = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(token)


@contextmanager
def show_status(say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Show what has begun last on a terminal, or what is given; elsewhere, say it line by line.

    What is given is shown on a terminal alone.
    """
    if not sys.stderr.isatty():
        with report_to(say):
            yield lambda what: None
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = _bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    task = progress.add_task("starting", total=None)

    def show(what: str) -> None:
        progress.update(task, description=what)

    with progress, report_to(show):
        yield show


@contextmanager
def waiting(what: str, *, show: bool = True) -> Iterator[None]:
    """Show what is being done, where it is not known how long it will take."""
    if _whole.get() is not None or not _is_shown(show):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def bar(title: str, total: int, *, show: bool = True) -> Iterator[Tell]:
    """Show the progress of a fit: bound, utility term, steps per second and time left.

    Args:
        title: what is fitted.
        total: the most steps there will be.
        show: whether to show a bar; it is shown on a terminal alone.

    Returns:
        A function to call after each chunk, with steps done, bound and utility term.
    """
    begin(f"fitting {title}")
    whole = _whole.get()
    if whole is not None:
        yield lambda done, bound, utility: whole(done / total)
        return
    if not _is_shown(show):
        yield lambda done, bound, utility: None
        return
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:,.0f} steps/s")

    steps = TextColumn("{task.completed:,.0f}/{task.total:,.0f}")
    before = TextColumn("{task.description}"), BarColumn(bar_width=20), steps
    progress = _bar(*before, TextColumn("{task.fields[state]}"), Speed(), TimeRemainingColumn())
    task = progress.add_task(title, total=total, state="compiling")

    def tell(done: int, bound: float, utility: float) -> None:
        state = f"bound {bound:,.2f}" + (f" utility {utility:,.2f}" if utility else "")
        progress.update(task, completed=done, state=state)

    with progress:
        yield tell


@contextmanager
def parts_of(title: str, total: int, *, show: bool = True) -> Iterator[Tick]:
    """Show one bar over parts that come one after the other, and all work inside.

    Returns:
        A function to call before each part, with what is about to be done.
    """
    if not _is_shown(show):
        yield lambda what: None
        return
    progress = _parts_bar(title, total)
    [task] = progress.tasks
    begun = 0

    def tick(what: str) -> None:
        nonlocal begun
        progress.update(task.id, description=what, completed=begun)
        begun += 1

    def share(of_fit: float) -> None:
        # There may be another fit in this part, which is over only when the next part begins.
        progress.update(task.id, completed=max(begun - 1 + 0.9 * of_fit, task.completed))

    with progress, part_of(share):
        yield tick


@contextmanager
def count_pieces(title: str, total: int, *, show: bool = True) -> Iterator[Callable[[bool], None]]:
    """Show one bar over independent pieces of work.

    Where they are part of a whole that has a bar, they report to that one.

    Returns:
        A function to call for each piece that is done: whether it failed.
    """
    whole, done, failures = _whole.get(), 0, 0
    progress = _parts_bar(title, total) if whole is None and _is_shown(show) else None

    def tell(failed: bool) -> None:
        nonlocal done, failures
        done, failures = done + 1, failures + failed
        if whole is not None:
            whole(done / total)
        if progress is not None:
            description = f"{failures} failed" if failures else ""
            progress.update(progress.tasks[0].id, completed=done, description=description)

    with progress or nullcontext(), part_of():
        yield tell


def _is_shown(show: bool) -> bool:
    return show and sys.stderr.isatty()


def _bar(*columns: Any, **how: Any) -> "Progress":
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True, **how)


def _parts_bar(title: str, total: int) -> "Progress":
    """Return a bar with how many parts are done, what is being done, and the time left.

    The time is estimated from the last ten minutes: parts are long and differ in speed.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    times = TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    # The time is estimated from the last ten minutes: parts are long and differ in speed.
    progress = _bar(
        TextColumn(title), BarColumn(), MofNCompleteColumn(), *times, speed_estimate_period=600
    )
    progress.add_task("", total=total)
    return progress
