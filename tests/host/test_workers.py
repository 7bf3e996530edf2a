"""Clusters that the command line asks for."""

import sys

import pytest

from stakes.errors import InputError
from stakes.host.workers import connected


@pytest.mark.parametrize(
    ("address", "count", "option"), [("127.0.0.1:8786", None, "--dask"), (None, 2, "--processes")]
)
def test_what_needs_dask_says_how_to_install_it(
    address: str | None, count: int | None, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(InputError, match=f"`{option}` needs Dask: pip install"),
        connected(address, count),
    ):
        raise AssertionError("no client should be there")


def test_no_cluster_needs_no_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with connected(None) as client:
        assert client is None
