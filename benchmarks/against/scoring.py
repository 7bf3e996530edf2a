"""How much more a tool costs than the best one on the rows held out, and how sure that is."""

from typing import NamedTuple

import numpy as np

from stakes.study import Clustered, Ordered, interval


class Difference(NamedTuple):
    """Of mean costs, with a 95 % interval."""

    mean: float
    low: float
    high: float


def difference(
    costs: np.ndarray, best: np.ndarray, cluster: np.ndarray, *, in_order: bool
) -> Difference:
    """Of the mean costs of two tools on the same (table, row).

    Rows of one cluster belong together; rows in order of time depend on their neighbours. The
    tables of one row, such as the dishes of a day, are averaged first.
    """
    paid, least = costs.mean(axis=0), best.mean(axis=0)
    found = interval(least, paid, Ordered() if in_order else Clustered(cluster))
    # That is by how much the tool reduces the best one's costs, as a share of these.
    base = abs(least.mean())
    return Difference(float((paid - least).mean()), -found.high * base, -found.low * base)
