"""What acting on all cases above a chance is worth."""

import numpy as np

from stakes import checks


def net_benefit(happened: np.ndarray, chance: np.ndarray, threshold: float) -> float:
    """Net benefit of acting above a threshold probability: cases found, less weighted false alarms.

    A threshold t says that acting in vain weighs t/(1-t) as much as a case found (Vickers and
    Elkin, Medical Decision Making, 2006).
    """
    threshold = checks.number("`threshold`", threshold, above=0, below=1)
    acted = np.asarray(chance) >= threshold
    found, vain = np.mean(acted & (happened == 1)), np.mean(acted & (happened == 0))
    return float(found - vain * threshold / (1 - threshold))
