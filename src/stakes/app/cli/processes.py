"""Several processes for one run: started and watched here, or joined across machines."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from stakes.app.cli.command import Exit, say

if TYPE_CHECKING:
    from stakes.processes import Processes

FINAL = (Exit.DONE, Exit.BAD_INPUT, Exit.NUMERICAL_FAILURE, Exit.NOT_CONVERGED)
"""Exit codes that another try would not change."""


def joined(
    coordinator: str | None, process: str | None, count: int | None, dask: str | None
) -> "Processes | None":
    """Join the others as asked; None where there are none to join."""
    from stakes.errors import InputError
    from stakes.processes import join

    if (coordinator is None) != (process is None):
        raise InputError("`--coordinator HOST:PORT` and `--process I/N` belong together.")
    if dask is not None and not (coordinator is None and count is None):
        raise InputError(
            "`--dask` makes the fits of the choice on a cluster, and `--processes` or "
            "`--coordinator` one fit on several processes: leave one of them out."
        )
    if coordinator is None or process is None:
        return None
    if count is not None:
        raise InputError("`--processes` starts all processes here; leave out `--coordinator`.")
    said = re.fullmatch(r"(\d{1,6})/(\d{1,6})", process)
    if said is None:
        raise InputError(
            f"`--process` is the number of this process and how many there are, such as 0/4; got "
            f"{process!r}."
        )
    return join(coordinator, process=int(said[1]), of=int(said[2]))


def supervised(run: Path, count: int, *, report: bool, json: bool) -> NoReturn:
    """Carry out a run by processes that are started here, and exit as the first one does."""
    from stakes.host.supervisor import supervise

    options = [*(() if report else ("--no-report",)), *(("--json",) if json else ())]

    def command(index: int, address: str, beats: Path) -> list[str]:
        joining = ["--coordinator", address, "--process", f"{index}/{count}"]
        started = [sys.executable, "-m", "stakes_command", "resume", str(run), *joining]
        return [*started, "--beats", str(beats), *options]

    raise typer.Exit(supervise(command, count, final_codes=FINAL, say=say))
