"""The ways of `stakes` that are tried."""

from typing import Any

import optax

import stakes


def default_ways() -> list[Any]:
    """Those of `choose`, and further corrections of plain VI."""
    strengths = (0.25, 1.0, 4.0, 16.0)
    return [
        stakes.Plain(),
        *(stakes.Calibrated(strength=strength) for strength in strengths),
        *corrections(),
        stakes.Same(),
    ]


def quick_ways() -> list[Any]:
    """Without calibrated fits, which take minutes where outcomes are many and no normal ones."""
    return [stakes.Plain(), *corrections(), stakes.Same()]


def falling(steps: int, rate: float = 0.1, draws: int | None = None) -> stakes.Options:
    """Natural gradients whose rate falls to nothing: a few hundred steps where Adam needs many."""
    fall = optax.scale_by_schedule(optax.cosine_decay_schedule(1.0, steps))
    optimizer = optax.chain(stakes.natural_gradient(rate), fall)
    return stakes.Options(steps=steps, optimizer=optimizer, all_steps=True, draws=draws)


def corrections() -> list[Any]:
    return [
        stakes.Corrected(stakes.Plain(), head)
        for head in (stakes.Shift(), stakes.Level(), stakes.Monotone())
    ]
