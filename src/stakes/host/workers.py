"""Independent pieces of work: one after another here, or on the workers of a Dask cluster."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stakes.errors import InputError
from stakes.host.progress import pieces_done


class Failed(NamedTuple):
    """A piece of work that ended in an error, which is told and stops no other."""

    error: str


def run_each(
    work: Callable[..., Any],
    pieces: Sequence[tuple[Any, ...]],
    *,
    title: str,
    on: Any = None,
    show: bool = True,
) -> list[Any]:
    """What `work` returns for each piece, in their order; `Failed` where it raised an error.

    Args:
        work: called with the parts of a piece as its arguments. On a cluster, it and the pieces
            travel to other processes.
        pieces: the arguments of each call.
        title: of the progress bar.
        on: a `dask.distributed.Client`; None to work here. A piece that is lost with its worker
            is done again on another.
        show: whether to show progress on a terminal.
    """
    if on is None:
        with pieces_done(title, len(pieces), show=show) as tell:
            found = []
            for piece in pieces:
                found.append(attempt(work, *piece))
                tell(isinstance(found[-1], Failed))
        return found
    return _on_cluster(work, pieces, on, title=title, show=show)


def checked_client(on: Any) -> Any:
    """A client of a Dask cluster, or an error that says how to get one."""
    lacks = [name for name in ("submit", "cancel", "scheduler_info") if not hasattr(on, name)]
    if isinstance(on, type) or lacks:
        raise InputError(
            f"`on=` must be a `dask.distributed.Client`, such as `Client(processes=True)` or "
            f"`Client('HOST:PORT')`; got a value of type {type(on).__name__}. Without it, all work "
            f"is done in this process."
        )
    return on


def attempt(work: Callable[..., Any], *piece: Any) -> Any:
    """What the work returns, or how it failed."""
    try:
        return work(*piece)
    except Exception as error:
        return Failed(f"{type(error).__name__}: {error}")


def _on_cluster(
    work: Callable[..., Any],
    pieces: Sequence[tuple[Any, ...]],
    client: Any,
    *,
    title: str,
    show: bool,
) -> list[Any]:
    from distributed import as_completed

    # Without `pure`, equal pieces are not taken for one.
    futures = [client.submit(attempt, work, *piece, pure=False) for piece in pieces]
    try:
        with pieces_done(title, len(pieces), show=show) as tell:
            for future in as_completed(futures):
                tell(isinstance(_result(future), Failed))
    except BaseException:
        client.cancel(futures)
        raise
    return [_result(future) for future in futures]


def _result(future: Any) -> Any:
    """Of a piece that is done; its workers may all have been lost."""
    error = future.exception()
    return future.result() if error is None else Failed(f"{type(error).__name__}: {error}")
