"""Where a fit stands, kept and loaded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stakes.errors import StorageError
from stakes.fitting import Average, History, State, load_history, start_history
from stakes.host.trees import save_tree


def start() -> History:
    variables = {"params": {"mu": jnp.ones(3)}, "decisions": jnp.zeros(2)}
    return start_history(State(variables, (), jnp.ones(()), jnp.zeros((), int), jnp.zeros((), int)))


def after(steps: int) -> History:
    trace = np.arange(float(steps))
    average = Average(newer=start().state.variables, newer_count=2, age=3)
    watched = np.ones((1, 5))
    return start()._replace(
        elbo=trace, utility=trace, finite=trace > 0, stage=1, average=average, watched=watched
    )


@pytest.mark.parametrize("history", [start(), after(5)], ids=["at the start", "later"])
def test_a_history_comes_back_as_it_was(history: History) -> None:
    loaded = load_history(save_tree(history), start(), "here")
    assert jax.tree.structure(loaded) == jax.tree.structure(history)
    jax.tree.map(np.testing.assert_array_equal, loaded, history)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stage": np.asarray(-1)}, "here is at stage -1"),
        ({"utility": np.ones(2)}, "here has traces of different lengths"),
        (
            {"watched": np.ones((1, 4))},
            r"'watched float64\[1, 4\]'; .*\[1, 5\]'",
        ),
        ({"elbo": np.ones(5, np.float32)}, r"'elbo float32\[5\]'; they .*'elbo float64\[5\]'"),
    ],
)
def test_what_is_no_history_of_this_fit_is_refused(
    change: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(StorageError, match=message):
        load_history({**save_tree(after(5)), **change}, start(), "here")
