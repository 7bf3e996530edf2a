"""How a rival is tuned: by the cost itself, cross-validated on the rows of the fit.

Folds are blocks of consecutive rows, as in the published study of the Yaz data; rows that are not
in order of time come here shuffled.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.against.contest import Table
from benchmarks.against.costs import Cost
from benchmarks.against.rivals import SecondMinimum, Setting

FOLDS = 5


def tuned(
    rival: SecondMinimum, table: Table, costs: Sequence[Cost]
) -> tuple[np.ndarray, list[dict[str, object]]]:
    """Decisions (cost, new row), and the setting chosen for each cost."""
    risks = cross_validated(rival, table, costs)
    settings, variants = list(rival.settings), list(rival.variants)
    best = [np.unravel_index(risk.argmin(), risk.shape) for risk in np.moveaxis(risks, -1, 0)]
    decided = np.empty((len(costs), len(table.new_x)))
    for place in sorted({setting for setting, _ in best}):
        chosen = [at for at, (setting, _) in enumerate(best) if setting == place]
        found = rival.decide(
            settings[place], table.x, table.y, table.new_x, [costs[at] for at in chosen]
        )
        for row, at in enumerate(chosen):
            decided[at] = found[best[at][1], row]
    return decided, [{**settings[s], **variants[v]} for s, v in best]


def cross_validated(rival: SecondMinimum, table: Table, costs: Sequence[Cost]) -> np.ndarray:
    """(setting, variant, cost): mean cost over the rows of the fit, each decided unseen."""
    settings: Sequence[Setting] = rival.settings
    if len(settings) * len(rival.variants) == 1:
        return np.zeros((1, 1, len(costs)))  # nothing to choose
    total = np.zeros((len(settings), len(rival.variants), len(costs)))
    for out in np.array_split(np.arange(len(table.x)), FOLDS):
        seen = np.delete(np.arange(len(table.x)), out)
        for place, setting in enumerate(settings):
            decided = rival.decide(setting, table.x[seen], table.y[seen], table.x[out], costs)
            for at, cost in enumerate(costs):
                total[place, :, at] += cost(table.y[out], decided[:, at]).sum(axis=-1)
    return total / len(table.x)
