"""Ways that decide by a posterior: plain VI, calibrated VI, and NUTS."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np

from stakes import checks
from stakes.bridge import check_sampling, nuts
from stakes.errors import InputError, name_of
from stakes.fitting import Fit
from stakes.host.workers import run_all
from stakes.predicting import Posterior, SampledPosterior
from stakes.problem import check_guide
from stakes.protocols import Transform
from stakes.study.bench import Bench
from stakes.study.ground import Forecast, Ground
from stakes.study.setup import Strength


@final
@dataclass(frozen=True, eq=False)
class ByPosterior:
    """A posterior for each fold, and one for everything.

    What it finds is kept, for heads and table: for the cases of the fit, and for the last others
    that it was asked about.
    """

    posteriors: Sequence[Posterior]
    seconds: float
    notes: dict[str, float | str]
    _found: dict[Any, Any] = field(default_factory=dict)

    def decide(self, at: int, ground: Ground) -> np.ndarray:
        found: np.ndarray = self._kept(Ground.decide, at, ground)
        return found

    def forecast(self, at: int, ground: Ground) -> Forecast:
        found: Forecast = self._kept(Ground.forecast, at, ground)
        return found

    def posterior(self, at: int) -> Posterior:
        return self.posteriors[at]

    def _kept(self, ask: Callable[[Ground, Posterior], Any], at: int, ground: Ground) -> Any:
        wanted = (ask, at, ground)
        if wanted not in self._found:
            for known in list(self._found):
                if not known[-1].of_fit and known[-1] is not ground:
                    del self._found[known]
            self._found[wanted] = ask(ground, self.posteriors[at])
        return self._found[wanted]


@final
@dataclass(frozen=True)
class Plain:
    """Plain VI, with the problem's own guide or a richer one.

    Examples:
        >>> import stakes
        >>> from numpyro.infer.autoguide import AutoMultivariateNormal
        >>> stakes.Plain(guide=AutoMultivariateNormal).name
        'VI with AutoMultivariateNormal'
    """

    guide: Any = None

    is_yardstick: ClassVar[bool] = False
    bases: ClassVar[tuple[Any, ...]] = ()

    def __post_init__(self) -> None:
        check_guide("`Plain(guide=...)`", self.guide)

    @property
    def name(self) -> str:
        return "plain VI" if self.guide is None else f"VI with {name_of(self.guide)}"

    def check(self, bench: Bench) -> None:
        bench.plan_of(self.guide)

    def fit(self, bench: Bench) -> ByPosterior:
        setup = bench.setup(self.guide)
        return _by_fits(setup.plain, setup.posterior, [setup.plain])


@final
@dataclass(frozen=True)
class Calibrated:
    """VI calibrated for the decision: `Linearized()` by default, with M found from plain VI.

    Examples:
        >>> import stakes
        >>> stakes.Calibrated(strength=4).name  # M is divided by four
        'calibrated, strength 4'
    """

    transform: Transform | None = None
    strength: float = 1.0
    guide: Any = None

    is_yardstick: ClassVar[bool] = False
    bases: ClassVar[tuple[Any, ...]] = ()

    def __post_init__(self) -> None:
        if self.transform is not None:
            known = "`Linearized(...)` or `Exponential(...)`"
            checks.choice("`Calibrated(transform=...)`", self.transform, Transform, known)
        strength = checks.number("`Calibrated(strength=...)`", self.strength, above=0)
        object.__setattr__(self, "strength", strength)
        check_guide("`Calibrated(guide=...)`", self.guide)

    @property
    def name(self) -> str:
        kind = "" if self.transform is None else f" ({self.transform})"
        guide = "" if self.guide is None else f" with {name_of(self.guide)}"
        strength = "" if self.strength == 1 else f", strength {self.strength:g}"
        return f"calibrated{kind}{guide}{strength}"

    @property
    def asked(self) -> Strength:
        return Strength(self.transform, self.strength)

    def check(self, bench: Bench) -> None:
        if bench.problem.utility is not None and self != Calibrated(guide=self.guide):
            raise InputError(
                f"`{self}`: the problem is given by a utility, which needs no transform and has no "
                f"scale M that could be stronger or weaker. Take `Calibrated()`."
            )
        bench.plan_of(self.guide)

    def fit(self, bench: Bench) -> ByPosterior:
        setup = bench.setup(self.guide)
        fits = bench.calibrated(self.guide, self.asked)
        return _by_fits(fits, setup.posterior, [setup.plain, fits])


@final
@dataclass(frozen=True)
class NUTS:
    """Draws of NUTS from four chains.

    Examples:
        >>> import stakes
        >>> stakes.NUTS(draws=2000).name
        'NUTS'
    """

    draws: int = 1000
    warmup: int = 500

    is_yardstick: ClassVar[bool] = False
    bases: ClassVar[tuple[Any, ...]] = ()
    name: ClassVar[str] = "NUTS"

    def __post_init__(self) -> None:
        for name in ("draws", "warmup"):
            value = checks.whole(f"`NUTS({name}=...)`", getattr(self, name))
            object.__setattr__(self, name, value)

    def check(self, bench: Bench) -> None:
        check_sampling(bench.plan.approximation)

    def fit(self, bench: Bench) -> ByPosterior:
        started, show = time.monotonic(), bench.progress and bench.client is None
        draw = partial(nuts, warmup=self.warmup, draws=self.draws, progress=show)
        seen = [bench.plan.approximation.counting(jnp.asarray(m)) for m in bench.splits.masks]
        pieces = [(each, bench.keys.nuts) for each in seen]
        if bench.client is None:
            found = [draw(*piece) for piece in pieces]
        else:
            found = run_all(draw, pieces, title=self.name, on=bench.client, show=bench.progress)
        sampled = [SampledPosterior(*each) for each in found]
        worst = [d for each in sampled if (d := each.diagnostics) is not None]
        notes: dict[str, float | str] = {
            "r_hat": max(m.r_hat for d in worst for m in d.mixing),
            "note": "; ".join(dict.fromkeys(text for d in worst for text in d.problems)),
        }
        return ByPosterior(sampled, time.monotonic() - started, notes)


def _by_fits(fits: Sequence[Fit], posterior: Any, all_fits: Sequence[Sequence[Fit]]) -> ByPosterior:
    seconds = sum(fit.seconds for each in all_fits for fit in each)
    ended = {str(fit.reason) for fit in fits if not fit.converged}
    note: dict[str, float | str] = {"note": "; ".join(sorted(ended))}
    return ByPosterior([posterior(fit) for fit in fits], seconds, note)
