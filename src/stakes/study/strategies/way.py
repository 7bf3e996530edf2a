"""What a way to a decision is, and what it becomes once it is fitted."""

from typing import Protocol

import numpy as np

from stakes.predicting import Posterior
from stakes.study.bench import Bench
from stakes.study.ground import Forecast, Ground


class Fitted(Protocol):
    """A way, fitted to each fold and to everything; `at` says which of these fits is meant."""

    @property
    def seconds(self) -> float:
        """What all its fits took."""
        ...

    @property
    def notes(self) -> dict[str, float | str]:
        """What else its row of the table says."""
        ...

    def decide(self, at: int, ground: Ground) -> np.ndarray:
        """A decision for each instance."""
        ...

    def forecast(self, at: int, ground: Ground) -> Forecast | None:
        """What it predicts; None for a way that predicts nothing."""
        ...

    def posterior(self, at: int) -> Posterior | None:
        """What it predicts by, likewise."""
        ...


class Way(Protocol):
    """Fitted to a problem and data, it decides for any data. A frozen value."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    @property
    def is_yardstick(self) -> bool:
        """Whether it is there to compare with: it is chosen only where every other way is worse."""
        ...

    @property
    def bases(self) -> "tuple[Way, ...]":
        """Ways that it stands on."""
        ...

    def check(self, bench: Bench) -> None:
        """Refuse, before any fit, a problem or data that the way cannot handle."""
        ...

    def fit(self, bench: Bench) -> Fitted:
        """Fit it to each fold and to everything."""
        ...
