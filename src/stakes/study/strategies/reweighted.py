"""Draws of a variational fit, weighted so that they stand for the exact posterior."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Key
from stakes.errors import InputError, some
from stakes.predicting import FittedPosterior, SampledPosterior
from stakes.study.folds import Mask
from stakes.study.leave_one_out import BAD, smoothed
from stakes.study.strategies.variational import ByPosterior, Calibrated, Plain, by_draws

if TYPE_CHECKING:
    from stakes.study.study import Study


@final
@dataclass(frozen=True)
class Reweighted:
    """Draws of another fit, with Pareto-smoothed importance weights p(D, θ) / q(θ).

    Where the tail of the weights is too heavy (k̂ above 0.7), the way is refused: the table shows
    it, but it is never chosen.

    Examples:
        >>> import stakes
        >>> stakes.Reweighted(stakes.Plain()).name
        'plain VI, reweighted'
    """

    base: Any = Plain()  # noqa: RUF009 (a frozen value)
    draws: int = 4000

    is_baseline: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rule = "a variational fit, `Plain(...)` or `Calibrated(...)`"
        checks.instance("`Reweighted(base=...)`", self.base, (Plain, Calibrated), rule)
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
    def bases(self) -> tuple[Any, ...]:
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
        """Draws that stand for the exact posterior of the outcomes seen."""
        base, started = study.fitted(self.base, mask), time.monotonic()
        posterior, k_hat = reweighted(base.posterior, mask.seen, study.keys.left_out, self.draws)
        refused = "" if k_hat <= BAD else f"k̂ = {k_hat:.2f}: the weights cannot be relied on"
        diagnosis = base.diagnosis._replace(k_hat=k_hat, refused=refused)
        return ByPosterior(posterior, base.seconds + time.monotonic() - started, diagnosis)

    def restore(self, study: "Study", arrays: Mapping[str, np.ndarray]) -> ByPosterior:
        """The draws, each as often as its weight says."""
        return by_draws(arrays)


def reweighted(
    posterior: object, seen: np.ndarray, key: Key, draws: int
) -> tuple[SampledPosterior, float]:
    """Draws that stand for the exact posterior of the outcomes seen, equally often; and k̂."""
    assert isinstance(posterior, FittedPosterior)
    draw_key, place_key = jax.random.split(key)
    counting = posterior.approximation.counting(jnp.asarray(seen))
    own = FittedPosterior(counting, posterior.params)
    log_ratio = np.asarray(predicting.weighed(own, draw_key, draws).log_ratio, float)
    weights = smoothed(log_ratio[:, None])
    shares = np.exp(weights.log_weights[:, 0])
    places = (np.arange(draws) + float(jax.random.uniform(place_key))) / draws
    chosen = np.searchsorted(np.cumsum(shares / shares.sum()), places).clip(max=draws - 1)
    latents = predicting.latent_draws(own, draw_key, draws)
    samples = {name: jnp.asarray(values[chosen]) for name, values in latents.items()}
    return SampledPosterior(samples), float(weights.k_hat[0])
