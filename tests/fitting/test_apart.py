"""Batches of runs that do not depend on each other, side by side."""

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gaussian_port import OneMean

from stakes._types import Array
from stakes.fitting import VI, FitSettings, Stop, Together, apart, loop, run_apart, run_together
from stakes.fitting.step import Info, State, Step

KEY = jax.random.key(0)
SETTINGS = FitSettings(steps=1000, draws=4, progress=False)


def batch(level: float, step: Any, settings: FitSettings = SETTINGS, runs: int = 2) -> Together:
    """Runs whose outcome lies at this level, and further up for each."""
    port = OneMean(jnp.array([6.0, 7.0, 5.5, 6.5]))
    start = VI().init(port.init(KEY), settings)
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * runs), start)
    keys = jnp.broadcast_to(jax.random.key(1), (runs,))
    return Together("VI", step, level + jnp.arange(runs), port, states, keys, settings)


def moved(settings: FitSettings = SETTINGS) -> Any:
    """A step of plain VI that sees other outcomes."""
    plain = VI().step(settings)

    def step(by: Array) -> Step:
        def here(port: Any, state: State, key: Any, rows: Any, /) -> tuple[State, Info]:
            return plain(OneMean(port.y + by), state, key, rows)

        return here

    return step


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_batches_side_by_side_have_the_numbers_of_each_alone(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(apart, "usable_cores", lambda: cores)
    step = moved()
    batches = [batch(level, step) for level in (0.0, 10.0, 20.0)]
    found = run_apart("three", batches)
    assert [len(fits) for fits in found] == [2, 2, 2]
    for each, fits in zip(batches, found, strict=True):
        for fit, alone in zip(fits, run_together(each), strict=True):
            np.testing.assert_array_equal(fit.elbo, alone.elbo)
            np.testing.assert_array_equal(fit.params["mean"], alone.params["mean"])
    assert float(found[2][1].params["mean"]) > float(found[0][0].params["mean"]) + 10


def test_nothing_is_traced_in_another_thread_and_the_same_steps_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apart, "usable_cores", lambda: 2)
    inner, traced = moved(), []

    def step(by: Array) -> Step:
        traced.append(threading.current_thread())
        return inner(by)

    run_apart("three", [batch(level, step) for level in (0.0, 10.0, 20.0)])
    assert traced == [threading.main_thread()]


def test_double_precision_of_the_caller_holds_in_all_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JAX keeps such a setting for one thread."""
    monkeypatch.setattr(apart, "usable_cores", lambda: 2)
    with jax.enable_x64(True):
        step = moved()
        found = run_apart("two", [batch(level, step) for level in (0.0, 10.0)])
    assert {fit.params["mean"].dtype for fits in found for fit in fits} == {np.dtype("float64")}


def test_an_error_in_one_batch_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "usable_cores", lambda: 2)
    take = loop._take

    def failing(call: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise FloatingPointError("out of luck")
        return take(call)

    monkeypatch.setattr(loop, "_take", failing)
    step = moved()
    with pytest.raises(FloatingPointError, match="out of luck"):
        run_apart("two", [batch(level, step) for level in (0.0, 10.0)])


def test_when_asked_to_stop_all_batches_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "usable_cores", lambda: 2)
    asked = iter([False] * 6)

    class Heard:
        def __enter__(self) -> Any:
            return type("Heard", (), {"asked": lambda self: next(asked, True)})()

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(apart, "deferred_ctrl_c", Heard)
    endless = FitSettings(steps=10**9, draws=4, patience=10**9, progress=False)
    step = moved(endless)
    found = run_apart("three", [batch(level, step, endless) for level in (0.0, 10.0, 20.0)])
    assert {fit.reason for fits in found for fit in fits} == {Stop.INTERRUPTED}
    assert [fits[0].steps for fits in found][2] == 0
