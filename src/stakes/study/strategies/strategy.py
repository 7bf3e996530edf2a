"""What a strategy is, a way to a decision, and what it becomes once it is fitted."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from stakes.errors import StorageError
from stakes.predicting import Posterior
from stakes.study.cases import Cases, Forecast
from stakes.study.comparison import Diagnosis
from stakes.study.folds import Mask

if TYPE_CHECKING:
    from stakes.study.study import Study


class FittedStrategy(Protocol):
    """A strategy, fitted to some outcomes; it decides about any cases.

    Derive from this class to inherit the defaults, those of decisions without a posterior.
    """

    @property
    def seconds(self) -> float:
        """How long the fit took."""
        return 0.0

    @property
    def diagnosis(self) -> Diagnosis:
        """Whether to rely on the fit."""
        return Diagnosis()

    @property
    def posterior(self) -> Posterior | None:
        """The posterior behind its predictions; None for a strategy that predicts nothing."""
        return None

    def decide(self, cases: Cases) -> np.ndarray:
        """Return a decision for each case."""
        ...

    def predict(self, cases: Cases) -> Forecast | None:
        """Return quantiles of its predictions; None for a strategy that predicts nothing."""
        return None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything that it decides by, so that `Strategy.restore` can rebuild it."""
        ...


class Strategy(Protocol):
    """A way to a decision: fitted to a study, it decides about any cases. A frozen value.

    Derive from this class to inherit the defaults, those of a strategy that stands by itself.
    """

    @property
    def name(self) -> str:
        """Its name in tables."""
        ...

    @property
    def description(self) -> str:
        """What it decides, in plain words."""
        ...

    @property
    def is_baseline(self) -> bool:
        """Whether it is there for comparison: it is chosen only where all else is worse."""
        return False

    @property
    def bases(self) -> "tuple[Strategy, ...]":
        """Strategies that it stands on."""
        return ()

    def check(self, study: "Study") -> None:
        """Refuse, before any fit, a problem or data that the strategy cannot handle."""
        ...

    def fit(self, study: "Study", mask: Mask) -> FittedStrategy:
        """Return the strategy, fitted to the outcomes that the mask lets it see."""
        ...

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> FittedStrategy:
        """Return the strategy that was fitted, from its arrays; no fit is made for it."""
        ...


def value_of(arrays: Mapping[str, np.ndarray], name: str, where: str) -> np.ndarray:
    """Return one of the arrays that were kept, or refuse arrays that lack it."""
    if name not in arrays:
        raise StorageError(f"{where} lacks {name!r}.")
    return arrays[name]


def below(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
