"""Progress of long work: bars, shown only on a terminal, and what is told of its parts."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Tell: TypeAlias = Callable[[int, float, float], None]
"""(steps done, bound, utility term)."""
Share: TypeAlias = Callable[[float], None]
"""Call with the share that is done, from 0 to 1."""

_whole: ContextVar[Share | None] = ContextVar("_whole", default=None)

_told: ContextVar[Callable[[str], None] | None] = ContextVar("_told", default=None)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Work inside tells the listener, and those around it, what it begins with."""
    before = _told.get()

    def tell(what: str) -> None:
        if before is not None:
            before(what)
        listener(what)

    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


def begin(what: str) -> None:
    """Tell what is about to be done, unless it is part of something that has been told."""
    tell = _told.get()
    if tell is not None and _whole.get() is None:
        tell(what)


@contextmanager
def told_in_place(say: Callable[[str], None]) -> Iterator[None]:
    """Show what has begun last on a terminal; elsewhere, say it line by line."""
    if not sys.stderr.isatty():
        with told_to(say):
            yield
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status, told_to(status.update):
        yield


@contextmanager
def untold() -> Iterator[None]:
    """Nothing that begins inside is told: it is part of something that has been."""
    with part_of(lambda share: None):
        yield


@contextmanager
def part_of(whole: Share) -> Iterator[None]:
    """Work inside has no bar of its own: it reports its share to the bar of the whole."""
    before = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(before)


@contextmanager
def bar(title: str, total: int, *, show: bool = True) -> Iterator[Tell]:
    """Bound, utility term, steps per second and time left, redrawn in place on a terminal."""
    begin(f"fitting {title}")
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

        def tell(done: int, bound: float, utility: float) -> None:
            state = f"bound {bound:,.2f}" + (f" utility {utility:,.2f}" if utility else "")
            progress.update(task, completed=done, state=state)

        yield tell


@contextmanager
def waiting(what: str, *, show: bool = True) -> Iterator[None]:
    """Show what is being done, where it is not known how long it will take."""
    if _whole.get() is not None or not (show and sys.stderr.isatty()):
        yield
        return

    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


Tick: TypeAlias = Callable[[str], None]
"""Call with what is about to be done."""


@contextmanager
def parts_of(title: str, total: int, *, show: bool = True) -> Iterator[Tick]:
    """One bar over parts that come one after the other, and all work inside; on a terminal."""
    if not (show and sys.stderr.isatty()):
        yield lambda what: None
        return
    from rich.console import Console

    progress = _parts_bar(title, Console(stderr=True))
    task = progress.add_task("", total=total)
    begun = 0

    def tick(what: str) -> None:
        nonlocal begun
        progress.update(task, description=what, completed=begun)
        begun += 1

    def share(of_fit: float) -> None:
        # There may be another fit in this part, which is over only when the next part begins.
        reached = begun - 1 + 0.9 * of_fit
        progress.update(task, completed=max(reached, progress.tasks[0].completed))

    with progress, part_of(share):
        yield tick


def _parts_bar(title: str, console: "Console") -> "Progress":
    """How many parts of the whole are done, what is being done, and the time left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # The time is estimated from the last ten minutes: parts are long and differ in speed.
    return Progress(*columns, console=console, transient=True, speed_estimate_period=600)


@contextmanager
def pieces_done(title: str, total: int, *, show: bool = True) -> Iterator[Callable[[bool], None]]:
    """One bar over independent pieces of work; call it for each that is done: did it fail?

    Where they are part of a whole that has a bar, they report to it.
    """
    whole, done = _whole.get(), 0
    if whole is not None:

        def count(failed: bool) -> None:
            nonlocal done
            done += 1
            whole(done / total)

        with untold():
            yield count
        return
    if not (show and sys.stderr.isatty()):
        with untold():
            yield lambda failed: None
        return
    from rich.console import Console

    failures = 0
    with _parts_bar(title, Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)

        def tell(failed: bool) -> None:
            nonlocal failures
            failures += failed
            said = f"{failures} failed" if failures else ""
            progress.update(task, advance=1, description=said)

        with untold():
            yield tell


@contextmanager
def rows_done(say: Callable[[str], None]) -> Iterator[Callable[[int], None]]:
    """A count of the rows decided, on a terminal; how many there will be is not known.

    What begins before is told there, too; elsewhere it is said line by line.
    """
    if not sys.stderr.isatty():
        with told_to(say):
            yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def show(what: str) -> None:
            progress.update(task, description=what)

        with told_to(show):
            yield lambda rows: show(f"{rows:,} rows decided")
