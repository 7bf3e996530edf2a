"""Strategies that decide by a posterior: plain VI, calibrated VI, reweighted draws, and NUTS.

Each has its own posterior, and all decide alike: the best decision for what the posterior predicts.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Key
from stakes.bridge import check_sampling, nuts
from stakes.errors import InputError, name_of, some
from stakes.fitting import Fit, check_linear_response, linear_response
from stakes.host.trees import load_tree, save_tree
from stakes.host.workers import run_all
from stakes.predicting import (
    FACTOR,
    FittedPosterior,
    LinearResponsePosterior,
    Posterior,
    SampledPosterior,
)
from stakes.problem import check_guide
from stakes.protocols import Transform
from stakes.study.cases import Cases, Forecast
from stakes.study.comparison import Diagnosis
from stakes.study.fits import Fits, Strength
from stakes.study.folds import Mask
from stakes.study.leave_one_out import BAD, smooth_weights
from stakes.study.options import check_kind
from stakes.study.strategies.strategy import Strategy

if TYPE_CHECKING:
    from stakes.study.study import Study

# How all of these decide, for the descriptions of strategies.
BEST = "the best decision for what the model predicts"


@final
@dataclass(frozen=True, eq=False)
class ByPosterior:
    """Decisions and predictions by a posterior."""

    posterior: Posterior
    seconds: float = 0.0
    diagnosis: Diagnosis = Diagnosis()  # noqa: RUF009

    def decide(self, cases: Cases) -> np.ndarray:
        """Return the best decision for each case."""
        return cases.decide(self.posterior)

    def predict(self, cases: Cases) -> Forecast:
        """Return quantiles of what the posterior predicts."""
        return cases.forecast(self.posterior)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters of the guide, or the draws."""
        return save_tree(self.posterior.numbers)


@final
@dataclass(frozen=True)
class Plain(Strategy):
    """Plain VI, with the problem's own guide or a richer one.

    Examples:
        >>> import stakes
        >>> from numpyro.infer.autoguide import AutoMultivariateNormal
        >>> stakes.Plain(guide=AutoMultivariateNormal).name
        'VI with AutoMultivariateNormal'
    """

    guide: Any = None

    description: ClassVar[str] = BEST

    def __post_init__(self) -> None:
        check_guide("`Plain(guide=...)`", self.guide)

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "plain VI" if self.guide is None else f"VI with {name_of(self.guide)}"

    def check(self, study: "Study") -> None:
        """Trace the problem with this guide."""
        study.fits(self.guide)

    def fit(self, study: "Study", mask: Mask) -> ByPosterior:
        """Return plain VI under the mask."""
        fits = study.fits(self.guide)
        fit = fits.plain(mask)
        return _by_fit(fits, fit, fit.seconds)

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> ByPosterior:
        """Return plain VI with these parameters."""
        return _restored(study.fits(self.guide), self.name, arrays)


@final
@dataclass(frozen=True)
class Calibrated(Strategy):
    """VI calibrated for the decision: `Linearized()` by default, with M found from plain VI.

    Examples:
        >>> import stakes
        >>> stakes.Calibrated(strength=4).name  # M is divided by four
        'calibrated, strength 4'
    """

    transform: Transform | None = None
    strength: float = 1.0
    guide: Any = None

    def __post_init__(self) -> None:
        check_kind("`Calibrated({}=...)`", "transform", self.transform)
        strength = checks.number("`Calibrated(strength=...)`", self.strength, above=0)
        checks.assign(self, strength=strength)
        check_guide("`Calibrated(guide=...)`", self.guide)

    @property
    def name(self) -> str:
        """Its name in tables."""
        kind = "" if self.transform is None else f" ({self.transform})"
        guide = "" if self.guide is None else f" with {name_of(self.guide)}"
        strength = "" if self.strength == 1 else f", strength {self.strength:g}"
        return f"calibrated{kind}{guide}{strength}"

    @property
    def description(self) -> str:
        """What it decides, in plain words."""
        strength = "" if self.strength == 1 else f", {self.strength:g} times as much"
        return f"{BEST}, fitted with the cost in mind{strength}"

    def check(self, study: "Study") -> None:
        """Refuse a strength where the problem is given by a utility, and ask for this one."""
        if study.problem.utility is not None and self != Calibrated(guide=self.guide):
            raise InputError(
                f"`{self}`: the problem is given by a utility, which needs no transform and has no "
                f"scale M that could be stronger or weaker. Take `Calibrated()`."
            )
        study.ask(self.guide, Strength(self.transform, self.strength))
        study.fits(self.guide)

    def fit(self, study: "Study", mask: Mask) -> ByPosterior:
        """Return calibrated VI under the mask, from plain VI under it."""
        fits = study.fits(self.guide)
        fit = fits.calibrated(Strength(self.transform, self.strength), mask)
        return _by_fit(fits, fit, fits.plain(mask).seconds + fit.seconds)

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> ByPosterior:
        """Return calibrated VI with these parameters."""
        return _restored(study.fits(self.guide), self.name, arrays)


@final
@dataclass(frozen=True)
class NUTS(Strategy):
    """Draws of NUTS from four chains.

    Examples:
        >>> import stakes
        >>> stakes.NUTS(draws=2000).name
        'NUTS'
    """

    draws: int = 1000
    warmup: int = 500

    name: ClassVar[str] = "NUTS"
    description: ClassVar[str] = f"{BEST}, fitted by sampling"

    def __post_init__(self) -> None:
        for name in ("draws", "warmup"):
            checks.assign(self, **{name: checks.whole(f"`NUTS({name}=...)`", getattr(self, name))})

    def check(self, study: "Study") -> None:
        """Refuse what NUTS cannot sample."""
        check_sampling(study.plan.approximation)

    def fit(self, study: "Study", mask: Mask) -> ByPosterior:
        """Return draws under the mask; on a cluster, those under all masks are made at once."""
        return study.once(self, lambda: self._fit_each(study))[mask]

    def _fit_each(self, study: "Study") -> dict[Mask, ByPosterior]:
        """Return draws under each mask."""
        started, work = time.monotonic(), study.work
        show = work.progress and work.client is None
        draw = partial(nuts, warmup=self.warmup, draws=self.draws, progress=show)
        approximation = study.plan.approximation
        pieces = [
            (approximation.counting(jnp.asarray(mask.seen)), study.keys.nuts)
            for mask in study.masks
        ]
        if work.client is None:
            sampled = [draw(*piece) for piece in pieces]
        else:
            sampled = run_all(draw, pieces, title=self.name, on=work.client, show=work.progress)
        each = (time.monotonic() - started) / len(pieces)
        posteriors = (SampledPosterior(*draws) for draws in sampled)
        fitted = [ByPosterior(own, each, _mixing(own)) for own in posteriors]
        return dict(zip(study.masks, fitted, strict=True))

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> ByPosterior:
        """Return the draws."""
        return _by_draws(study, self.name, arrays)


@final
@dataclass(frozen=True)
class LinearResponse(Strategy):
    """Plain VI, with the covariances that the curvature of its bound implies.

    Independent normals have too little spread where latents depend on one another, and no
    correlations. Linear response finds both from the fit as it is (Giordano, Broderick and Jordan
    2018); the means stay where they are.

    Examples:
        >>> import stakes
        >>> stakes.LinearResponse().name
        'plain VI, linear response'
    """

    name: ClassVar[str] = "plain VI, linear response"
    description: ClassVar[str] = f"{BEST}, with the covariances that plain VI leaves out"

    @property
    def bases(self) -> "tuple[Strategy, ...]":
        """The fit whose bound is differentiated."""
        return (Plain(),)

    def check(self, study: "Study") -> None:
        """Refuse guides that are not made of independent normals, and minibatches."""
        approximation = study.plan.approximation
        check_linear_response(approximation, approximation.start)

    def fit(self, study: "Study", mask: Mask) -> ByPosterior:
        """The covariance at the optimum of plain VI under the mask."""
        fits, started = study.fits(), time.monotonic()
        fit = fits.plain(mask)
        seeing = fits.plan.approximation.counting(jnp.asarray(mask.seen))
        lower = linear_response(seeing, fit.params, study.keys.left_out)
        factor = jnp.asarray(lower, jnp.result_type(float))
        posterior = LinearResponsePosterior(fits.plan.approximation, fit.params, factor)
        note = "" if fit.converged else str(fit.reason)
        return ByPosterior(posterior, fit.seconds + time.monotonic() - started, Diagnosis(note))

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> ByPosterior:
        """Plain VI with these parameters and this covariance."""
        approximation = study.fits().plan.approximation
        size = sum(np.size(approximation.start[pair.loc]) for pair in approximation.normals)
        like = {**approximation.start, FACTOR: jnp.zeros((size, size), jnp.result_type(float))}
        numbers = load_tree(arrays, like, where=_kept_of(self.name))
        factor = numbers.pop(FACTOR)
        return ByPosterior(LinearResponsePosterior(approximation, numbers, factor))


def _by_draws(study: "Study", name: str, arrays: Mapping[str, np.ndarray]) -> ByPosterior:
    """Return decisions by draws of the latents that were kept."""
    kind, latents = jnp.result_type(float), study.plan.approximation.latents
    # As many draws as there are.
    like = {latent: jnp.zeros((0, *own.shape), kind) for latent, own in latents.items()}
    return ByPosterior(SampledPosterior(load_tree(arrays, like, where=_kept_of(name))))


def _kept_of(name: str) -> str:
    return f"What was kept of {name!r}"


def _mixing(posterior: SampledPosterior) -> Diagnosis:
    """Return what the chains say of their draws."""
    found = posterior.diagnostics
    if found is None:
        return Diagnosis()
    r_hat = max(float(each.r_hat) for each in found.mixing)
    return Diagnosis("; ".join(found.problems), r_hat=r_hat)


def _by_fit(fits: Fits, fit: Fit, seconds: float) -> ByPosterior:
    note = "" if fit.converged else str(fit.reason)
    return ByPosterior(fits.posterior(fit), seconds, Diagnosis(note))


def _restored(fits: Fits, name: str, arrays: Mapping[str, np.ndarray]) -> ByPosterior:
    approximation = fits.plan.approximation
    params = load_tree(arrays, approximation.start, where=_kept_of(name))
    return ByPosterior(FittedPosterior(approximation, params))


@final
@dataclass(frozen=True)
class Reweighted(Strategy):
    """Draws of another fit, with Pareto-smoothed importance weights p(D, θ) / q(θ).

    If the tail of the weights is too heavy (k̂ above 0.7), the strategy is refused: the table shows
    it, but it is never chosen.

    Examples:
        >>> import stakes
        >>> stakes.Reweighted(stakes.Plain()).name
        'plain VI, reweighted'
    """

    base: Any = Plain()
    draws: int = 4000

    def __post_init__(self) -> None:
        rule = "a variational fit, `Plain(...)`, `Calibrated(...)` or `LinearResponse()`"
        kinds = (Plain, Calibrated, LinearResponse)
        checks.instance("`Reweighted(base=...)`", self.base, kinds, rule)
        draws = checks.whole("`Reweighted(draws=...)`", self.draws, least=100)
        checks.assign(self, draws=draws)

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.base.name}, reweighted"

    @property
    def description(self) -> str:
        """What it decides, in plain words."""
        return f"{self.base.description}, its draws weighted towards the exact posterior"

    @property
    def bases(self) -> tuple[Strategy, ...]:
        """The fit whose draws are weighted."""
        return (self.base,)

    def check(self, study: "Study") -> None:
        """Refuse models that have no one density of all latents and the data as a whole."""
        self.base.check(study)
        cases = study.plan.approximation.trace
        if cases.subsamples or cases.learned:
            parts = [part.plate for part in cases.subsamples] or list(cases.learned)
            raise InputError(
                f"`{self}` needs one density of all latents and the data as a whole, but the model "
                f"{'subsamples' if cases.subsamples else 'learns'} {some(parts)}."
            )

    def fit(self, study: "Study", mask: Mask) -> ByPosterior:
        """Return draws that stand for the exact posterior of the outcomes seen."""
        base, started = study.fitted(self.base, mask), time.monotonic()
        posterior, k_hat = reweigh(base.posterior, mask.seen, study.keys.left_out, self.draws)
        refused = "" if k_hat <= BAD else f"k̂ = {k_hat:.2f}: the weights cannot be relied on"
        diagnosis = base.diagnosis._replace(k_hat=k_hat, refused=refused)
        return ByPosterior(posterior, base.seconds + time.monotonic() - started, diagnosis)

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> ByPosterior:
        """Return the draws, each as often as its weight says."""
        return _by_draws(study, self.name, arrays)


def reweigh(
    posterior: object, seen: np.ndarray, key: Key, draws: int
) -> tuple[SampledPosterior, float]:
    """Return draws that stand for the exact posterior of the outcomes seen, equally often; and k̂.

    Args:
        posterior: of a fit, whose draws are weighted by p(D, θ) / q(θ).
        seen: which outcomes the exact posterior has seen.
        key: of draws and their resampling.
        draws: how many.
    """
    assert isinstance(posterior, FittedPosterior | LinearResponsePosterior)
    draw_key, place_key = jax.random.split(key)
    counting = posterior.approximation.counting(jnp.asarray(seen))
    own = replace(posterior, approximation=counting)
    log_ratio, latents = predicting.weighed_latents(own, draw_key, draws)
    weights = smooth_weights(np.asarray(log_ratio, float)[:, None])
    shares = np.exp(weights.log_weights[:, 0])
    places = (np.arange(draws) + float(jax.random.uniform(place_key))) / draws
    chosen = np.searchsorted(np.cumsum(shares / shares.sum()), places).clip(max=draws - 1)
    samples = {name: values[chosen] for name, values in latents.items()}
    return SampledPosterior(samples), float(weights.k_hat[0])
