"""Whom to call: two actions, and a cost that differs from customer to customer.

The problem is that of `stakes.demos.bank`. Run `python -m examples.bank`.
"""

from typing import TYPE_CHECKING

import numpy as np

from examples.judging import ending, main, new_axes, table
from stakes.demos.bank import CALL, HELD_OUT, KNOWN, held_out, solve
from stakes.study import Calibration, net_benefit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def summary(result: Calibration) -> str:
    """What decisions cost the customers held out, and how good its probabilities are."""
    later = held_out()
    plan = result.decide(later, new="customer", known=KNOWN, fit=result.vi).values
    nobody = later["bought"] * later["earned"]
    others = {"call everybody": np.full(HELD_OUT, CALL), "call nobody": nobody}
    comparison = result.compare(later, new="customer", known=KNOWN)
    costs = np.where(plan == "call", CALL, nobody)
    lines = [
        str(comparison),
        "",
        f"Plain VI calls {int((plan == 'call').sum())} of {HELD_OUT} customers held out.",
        table(costs, others, "a customer", comparison.dependence),
        "",
        "Net benefit, in buyers for each 1,000 customers:",
    ]
    chance = chances(result)
    for threshold in (0.05, 0.1, 0.2, 0.3):
        worth = 1000 * net_benefit(later["bought"], chance, threshold)
        everybody = 1000 * net_benefit(later["bought"], np.ones(HELD_OUT), threshold)
        lines.append(f"  at {threshold:4.0%}: {worth:6.1f}, calling everybody {everybody:7.1f}")
    return "\n".join([*lines, "", ending(result)])


def chances(result: Calibration) -> np.ndarray:
    """That customers held out would buy, by plain VI."""
    predicted = result.predictive(held_out(), new="customer", known=KNOWN, fit=result.vi)
    bought: np.ndarray = predicted["bought"].mean(("chain", "draw")).values
    return bought


def picture(result: Calibration, ax: "Axes | None" = None) -> "Axes":
    """Net benefit over thresholds, on the customers held out."""
    ax = new_axes() if ax is None else ax
    bought, thresholds = held_out()["bought"], np.linspace(0.01, 0.6, 60)
    lines = {"by the model": chances(result), "calling everybody": np.ones(HELD_OUT)}
    for name, chance in lines.items():
        worth = [1000 * net_benefit(bought, chance, threshold) for threshold in thresholds]
        ax.plot(thresholds, worth, label=name)
    ax.axhline(0, color="#767676", linestyle="--", label="calling nobody")
    ax.set_ylim(-20, None)
    ax.set_xlabel("threshold probability")
    ax.set_ylabel("net benefit, buyers for each 1,000")
    ax.legend(frameon=False)
    return ax


if __name__ == "__main__":
    main(solve, summary)
