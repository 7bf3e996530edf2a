"""What there is to say about a fit before its decisions are relied on."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Diagnosis(NamedTuple):
    """What there is to say about a fit."""

    note: str = ""
    """Why not to rely on it."""
    k_hat: float = np.nan
    r_hat: float = np.nan
    refused: str = ""
    """Why its decisions must not be used."""

    @classmethod
    def worst(cls, several: Iterable["Diagnosis"]) -> "Diagnosis":
        """The diagnosis of fits that stand together."""
        listed = list(several)
        notes = dict.fromkeys(note for each in listed for note in each.note.split("; ") if note)
        by_k_hat = max(listed, key=lambda each: np.nan_to_num(each.k_hat, nan=-np.inf))
        r_hats = [each.r_hat for each in listed if not np.isnan(each.r_hat)]
        return cls("; ".join(notes), by_k_hat.k_hat, max(r_hats, default=np.nan), by_k_hat.refused)
