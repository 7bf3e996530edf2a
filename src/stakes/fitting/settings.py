"""How to optimise, and for how long."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from stakes import checks
from stakes.fitting.default import adaptive

if TYPE_CHECKING:
    import optax


def check_optimizer(where: str, optimizer: object) -> None:
    import optax

    kinds = optax.GradientTransformation | optax.MultiSteps
    if not isinstance(optimizer, kinds):
        raise checks.refused(where, "an optax optimiser, such as `optax.adam(0.01)`", optimizer)


def adam(rate: float = 0.03) -> "optax.GradientTransformation":
    """Adam with a memory of a hundred steps rather than a thousand.

    A fit starts anywhere, and its first gradients may be a million times as large as those to
    come. Adam divides by what it remembers of their size: with the usual memory its steps would
    stay too short for ten thousand steps.
    """
    import optax  # here, since it takes a while and deciding does without it

    return optax.adam(rate, b2=0.99)


@final
@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to optimise.

    Args:
        steps: at most this many.
        draws: the number of draws of θ at each step.
        independent: draw each θ independently. By default draws from normal guides come in pairs
            and are evenly spread, which makes for less noise.
        optimizer: any optax optimiser; `adaptive()` by default. Its step size is reduced
            tenfold, twice, each time that the bound has stopped rising; after the first time,
            each stage ends with the average over its later part. This round of three stages is
            repeated, each time twice as long, until it ends no better than the one before.
        chunk: steps compiled into one call; progress is shown and stopping decided between
            calls.
        patience: the fewest chunks in a stage of the first round; where `steps` is small, six.
        all_steps: take every step at the optimiser's own step size, for an optimiser with a
            schedule.
        sweep: steps in which each row that has parameters of its own comes up once. A stage of full
            step size takes several of these, and the others one: until a row has come up, the bound
            does not tell how far it has to go.
    """

    steps: int = 30_000
    draws: int = 10
    independent: bool = False
    optimizer: "optax.GradientTransformation | None" = None
    chunk: int = 100
    patience: int = 6
    all_steps: bool = False
    sweep: int = 0
    progress: bool = True

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "draws": 1, "chunk": 1, "patience": 1, "sweep": 0}.items():
            count = checks.whole(f"`{name}=`", getattr(self, name), least=least)
            checks.assign(self, **{name: count})
        for name in ("independent", "all_steps", "progress"):
            checks.assign(self, **{name: checks.flag(f"`{name}=`", getattr(self, name))})
        if self.optimizer is not None:
            check_optimizer("`optimizer=`", self.optimizer)

    @property
    def least_chunks(self) -> int:
        """Patience; less where `steps` is small, to leave room for two rounds, of 3 and 6 times."""
        return min(self.patience, max(6, self.steps // (18 * self.chunk)))

    def transformation(self) -> "optax.GradientTransformation":
        """Return the optimiser that the user chose, by default `adaptive()`."""
        return adaptive() if self.optimizer is None else self.optimizer
