"""Trees as named arrays, and back."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stakes.errors import StorageError
from stakes.host.trees import load_tree, save_tree


class Kept(NamedTuple):
    params: dict[str, Any]
    trace: np.ndarray
    steps: int
    seconds: float
    kind: str
    more: Any = None


KEPT = Kept({"mu": jnp.arange(3.0), "b/c": [jnp.ones((2, 1))]}, np.ones(4), 4, 0.5, "level")


def test_leaves_are_named_by_their_path() -> None:
    assert list(save_tree(KEPT)) == [
        "params['b/c'][0]",
        "params['mu']",
        "trace",
        "steps",
        "seconds",
        "kind",
    ]


def test_a_tree_comes_back_with_leaves_of_the_same_kind() -> None:
    like = KEPT._replace(trace=np.zeros(0), steps=0, seconds=0.0, kind="risen, and longer")
    loaded = load_tree(save_tree(KEPT), like, "here")
    assert jax.tree.structure(loaded) == jax.tree.structure(KEPT)
    for mine, its in zip(jax.tree.leaves(loaded), jax.tree.leaves(KEPT), strict=True):
        assert type(mine) is type(its)
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(
    ("change", "alone", "they"),
    [
        ({"params['nu']": np.ones(2, np.float32)}, r"'nu float32\[2\]'", "none"),
        ({"params['mu']": np.ones(2, np.float32)}, r"'mu float32\[2\]'", r"'mu float32\[3\]'"),
        ({"params['mu']": np.ones(3)}, r"'mu float64\[3\]'", r"'mu float32\[3\]'"),
        ({"trace": np.ones((4, 2))}, r"'trace float64\[4, 2\]'", r"'trace float64\[0\]'"),
        ({"kind": np.asarray(1)}, r"'kind int64\[\]'", "'kind text'"),
    ],
)
def test_what_does_not_fit_is_named_on_both_sides(
    change: dict[str, np.ndarray], alone: str, they: str
) -> None:
    like = KEPT._replace(trace=np.zeros(0))
    with pytest.raises(
        StorageError, match=f"^it does not fit.*has {alone}; they alone .* {they}. "
    ):
        load_tree({**save_tree(KEPT), **change}, like, "it")


def test_what_is_missing_is_named() -> None:
    arrays = save_tree(KEPT)
    del arrays["trace"]
    with pytest.raises(StorageError, match=r"alone has none; they alone have 'trace float64\[4\]'"):
        load_tree(arrays, KEPT, "it")


def test_parameters_are_named_once_though_the_optimizer_repeats_them() -> None:
    def state(name: str) -> dict[str, Any]:
        return {"variables": {name: jnp.ones(1)}, "optimizer": {name: jnp.ones(1)}}

    with pytest.raises(
        StorageError, match=r"has 'a float32\[1\]'; they alone have 'b float32\[1\]'"
    ):
        load_tree(save_tree(state("a")), state("b"), "it")
