"""What fits are given beside problem and data: options, random keys, and a record of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes._types import Key
from stakes.errors import InputError
from stakes.fitting import EM, FitSettings, History, Joint, Method
from stakes.host.programs import Program
from stakes.problem import Problem
from stakes.protocols import Estimator, Expectation, Transform
from stakes.utilities import Linearized

if TYPE_CHECKING:
    import optax


# The protocol that each of these options has to implement, and values of the library that do.
CONTRACTS: dict[str, tuple[type, str]] = {
    "transform": (Transform, "`Linearized(...)` or `Exponential(...)`"),
    "method": (Method, "`Joint()` or `EM()`"),
    "expectation": (Expectation, "one such as `Quadrature()`"),
    "estimator": (Estimator, "`Nested()`, `Jensen()` or `Taylor()`"),
}


def check_kind(where: str, name: str, value: object) -> None:
    """Refuse a value that is no such option; `where` has a place for the name."""
    if value is not None:
        checks.choice(where.format(name), value, *CONTRACTS[name])


@final
@dataclass(frozen=True, kw_only=True)
class Options:
    """How to calibrate; the docstring of `calibrate` explains each option.

    Examples:
        >>> import stakes
        >>> stakes.Options(method=stakes.EM(draws=50), steps=0)
        Traceback (most recent call last):
        ...
        stakes.errors.InputError: `steps=` must be a whole number above zero; got 0.
    """

    transform: Transform | None = None
    method: Method | None = None
    expectation: Expectation | None = None
    estimator: Estimator | None = None
    steps: int = 30_000
    draws: int | None = None
    independent: bool = False
    optimizer: "optax.GradientTransformation | None" = None
    all_steps: bool = False
    warm_start: bool = True

    def __post_init__(self) -> None:
        for name in CONTRACTS:
            check_kind("`{}=`", name, getattr(self, name))
        settings = self.fit_settings(draws=1, progress=False)  # reports what does not fit
        checks.assign(
            self,
            warm_start=checks.flag("`warm_start=`", self.warm_start),
            steps=settings.steps,
            independent=settings.independent,
            all_steps=settings.all_steps,
            draws=None if self.draws is None else settings.draws,
        )

    def fit_settings(self, *, draws: int, progress: bool) -> FitSettings:
        """Return the settings of both fits.

        Args:
            draws: of θ at each step, where the user gave no number.
            progress: whether to show progress bars.
        """
        return FitSettings(
            steps=self.steps,
            draws=draws if self.draws is None else self.draws,
            independent=self.independent,
            optimizer=self.optimizer,
            all_steps=self.all_steps,
            progress=progress,
        )

    def replaced_by(self, options: "Options | None", where: str) -> "Options":
        """Return the options given as one value, if any, which leaves no room for single ones."""
        if options is None:
            return self
        if self != Options():
            raise InputError(f"`{where}(options=...)` replaces the other options: leave those out.")
        return options

    def transform_for(self, problem: Problem) -> Transform | None:
        """Return the transform from loss to utility, `Linearized()` by default.

        None for a problem given by a utility, where a transform is refused.
        """
        if problem.utility is None:
            return Linearized() if self.transform is None else self.transform
        if self.transform is None:
            return None
        raise InputError(
            f"`transform={self.transform}` turns a loss into a utility, but the problem is given "
            f"by a utility already; leave `transform` out."
        )

    def method_for(self, problem: Problem) -> Method:
        """Return the method: `Joint()`, or `EM()` where decisions follow no gradient."""
        if self.method is None:
            return Joint() if problem.space.is_smooth else EM()
        return self.method


@Program
def _folded(key: Key) -> list[Key]:
    numbers = jnp.arange(len(Keys._fields))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
    return [keys[number] for number in range(len(Keys._fields))]


class Keys(NamedTuple):
    """Random keys, one for each purpose; under `vmap`, with a leading axis of seeds.

    Each purpose has its own key, so that one more draw for one of them changes nothing else.

    Attributes:
        setup: of the start of the guide.
        vi: of plain VI.
        calibrated: of calibrated fits.
        decisions: the same for every posterior, so that their decisions differ by no luck of the
            draw.
        spread: of outcomes that show over which values an expectation has to reach.
        predictions: of predicted outcomes.
        scale: of predicted outcomes whose losses give M.
        posterior: of draws that users ask for.
        parts: of latents that are drawn part by part.
        nuts: of the chains of NUTS.
        left_out: of draws that are reweighted.
        folds: of random folds.
        maps: of calibration maps.
        prior: of draws before any outcome was seen.
    """

    setup: Key
    vi: Key
    calibrated: Key
    decisions: Key
    spread: Key
    predictions: Key
    scale: Key
    posterior: Key
    parts: Key
    nuts: Key
    left_out: Key
    folds: Key
    maps: Key
    prior: Key

    @classmethod
    def of(cls, key: Key) -> "Keys":
        """Return the keys that a key folds into."""
        return cls(*_folded(key))


class KeyWords(NamedTuple):
    """A key as plain numbers, which can travel between processes."""

    kind: str
    words: np.ndarray

    @classmethod
    def of(cls, key: Key) -> "KeyWords":
        return cls(str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)))

    def key(self) -> Key:
        key: Key = jax.random.wrap_key_data(jnp.asarray(self.words), impl=self.kind)
        return key


class Journal(Protocol):
    """A record of the two fits, "VI" and "calibrated", that outlives the process.

    Derive from this class to inherit the defaults.
    """

    def history(self, title: str, start: History) -> History:
        """Return where this fit was left; `start` if there is no record of it."""
        ...

    def knows(self, title: str) -> bool:
        """Whether there is a record of this fit."""
        return False

    def watch(self, title: str, history: History) -> None:
        """Record where the fit stands; called after every chunk of steps."""
        ...

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """VI's decisions, of this shape; None where there is no record of them."""
        ...

    def keep_decisions(self, decisions: np.ndarray) -> None:
        """Record VI's decisions, once the plain fit has ended."""
        ...

    def finish(self) -> None:
        """Save everything that has been recorded."""
