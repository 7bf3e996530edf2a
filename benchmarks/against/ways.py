"""The ways of `stakes` that are tried."""

from typing import Any

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


def corrections() -> list[Any]:
    return [
        stakes.Corrected(stakes.Plain(), head)
        for head in (stakes.Shift(), stakes.Level(), stakes.Monotone())
    ]
