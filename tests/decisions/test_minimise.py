"""Decisions found numerically, against decisions that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quickly

from stakes._types import Array
from stakes.decisions import (
    by_parabolas,
    by_promise,
)


def test_parabolas_find_the_bottom_and_are_never_worse_than_the_grid() -> None:
    def objective(h: Array) -> Array:
        bowl, kink, flat = (h - 0.3) ** 2, jnp.abs(h - 5) + 0.01 * h**2, 0 * h
        two_wells = -jnp.exp(-(h**2)) - 0.5 * jnp.exp(-((h - 3) ** 2))
        return jnp.stack([bowl[0], kink[1], flat[2], two_wells[3], h[4], -h[5]])

    grid = jnp.broadcast_to(jnp.linspace(-6.0, 6.5, 9)[:, None], (9, 6))
    found, value, of_grid = quickly(
        lambda: (
            (place := by_parabolas(objective, grid, 5).place),
            objective(place),
            jax.lax.map(objective, grid).min(axis=0),
        )
    )
    assert (value <= of_grid).all()
    assert found[:2] == pytest.approx(np.array([0.3, 5.0]), abs=0.02)
    assert found[3:] == pytest.approx(np.array([0.0, -6.0, 6.5]), abs=0.01)
    assert np.isnan(quickly(lambda: by_parabolas(lambda h: h * jnp.nan, grid, 5).place)).all()


def test_promises_lead_to_the_lowest_of_all_dips_wherever_it_is() -> None:
    curves = {
        "bowl": (lambda h: (h - 0.3) ** 2 + 1, 0.3),
        "kink": (lambda h: jnp.abs(h - 5) + 0.01 * h**2, 5.0),
        "jump": (lambda h: jnp.where(h > 0.777, 3 + h, 2 - h), 0.777),
        "dips": (lambda h: 2 + jnp.sin(9 * h) + 0.05 * (h - 0.4) ** 2, 0.5234),
        "plateau": (lambda h: jnp.clip(jnp.abs(h - 0.4) - 0.3, 0, 1) + 0.1, 0.4),
        "far above": (lambda h: (h - 1e4) ** 2 + 1e3, 1e4),
        "far below": (lambda h: jnp.abs(h + 1e5) + 1e3, -1e5),
        "flat, then a dip": (lambda h: jnp.minimum(jnp.abs(h - 30), 20.0) + 1, 30.0),
        "rises without end": (lambda h: -h, np.inf),
        "falls without end": (lambda h: 1 / (1 + jnp.exp(-h)) + 1, -np.inf),
        "falls until not defined": (lambda h: jnp.where(h < 99, -h, jnp.nan), np.nan),
        "not defined below": (lambda h: jnp.log(h + 7) ** 2 + 1, -6.0),
        "not defined": (lambda h: jnp.sqrt(h), np.nan),
        "nothing matters": (lambda h: 0 * h + 1, 0.0),
    }

    def objective(h: Array) -> Array:
        return jnp.stack([curve(h[i]) for i, (curve, _) in enumerate(curves.values())])

    shape = (66, len(curves))
    grid = jnp.broadcast_to(jnp.linspace(-6.0, 6.0, 66)[:, None], shape)
    found = quickly(lambda: by_promise(objective, grid, jnp.full(shape[1:], 12.0), 40))
    near = dict.fromkeys(curves, 0.02) | {"plateau": 0.31, "nothing matters": 6.0}
    near |= {"far above": 1.0, "far below": 1.0}
    for name, place, (_, lowest) in zip(curves, found, curves.values(), strict=True):
        assert float(place) == pytest.approx(lowest, abs=near[name], nan_ok=True), name
