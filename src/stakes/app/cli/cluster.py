"""`--dask`: the cluster that fits are made on."""

from contextlib import AbstractContextManager
from typing import Any


def on_cluster(address: str | None) -> AbstractContextManager[Any]:
    """A client of the cluster at this address, which gets the user's own code; None for none."""
    from stakes.app.spec import user_modules
    from stakes.host.workers import connected

    return connected(address, user_modules())
