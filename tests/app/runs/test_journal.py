"""Arrays of a run in files with checksums of their own."""

import resource
from pathlib import Path

import numpy as np
import pytest
from projects import SPEC

from stakes.errors import StorageError
from stakes.host.trees import save_arrays


def test_states_are_plain_numpy_archives_without_pickle(finished: Path) -> None:
    with np.load(finished / "state.npz", allow_pickle=False) as archive:
        fits = {"VI", "VI, 2 folds and all", "calibrated", "decisions"}
        assert {name.split("/")[0] for name in archive.files} == fits
        assert len(archive["VI/elbo"]) == SPEC["fit"]["steps"]


def test_a_full_disk_is_told_and_leaves_the_older_state(copied: Path) -> None:
    before = (copied / "state.npz").read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
        with pytest.raises(StorageError, match=r"Cannot write .*state\.npz"):
            save_arrays(copied / "state.npz", {"a": np.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (copied / "state.npz").read_bytes() == before
    assert not list(copied.glob(".*"))
