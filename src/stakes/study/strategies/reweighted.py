"""Draws of a variational fit, weighted so that they stand for the exact posterior."""

import time
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes import checks, predicting
from stakes._types import Key
from stakes.errors import InputError, some
from stakes.predicting import FittedPosterior, SampledPosterior
from stakes.study.bench import Bench
from stakes.study.leave_one_out import smoothed
from stakes.study.strategies.fitted import ByPosterior, Calibrated, Plain

LARGEST_K_HAT = 0.7
"""Vehtari et al., Pareto smoothed importance sampling (2024)."""


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

    is_yardstick: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rule = "a variational fit, `Plain(...)` or `Calibrated(...)`"
        checks.instance("`Reweighted(base=...)`", self.base, (Plain, Calibrated), rule)
        draws = checks.whole("`Reweighted(draws=...)`", self.draws, least=100)
        object.__setattr__(self, "draws", draws)

    @property
    def name(self) -> str:
        return f"{self.base.name}, reweighted"

    @property
    def bases(self) -> tuple[Any, ...]:
        return (self.base,)

    def check(self, bench: Bench) -> None:
        self.base.check(bench)
        cases = bench.plan.approximation.trace
        if cases.subsamples or cases.learned:
            parts = [part.plate for part in cases.subsamples] or list(cases.learned)
            raise InputError(
                f"`{self}` needs one density of all latents and the data as a whole, but the model "
                f"{'subsamples' if cases.subsamples else 'learns'} {some(parts)}."
            )

    def fit(self, bench: Bench) -> ByPosterior:
        base, started = bench.fitted(self.base), time.monotonic()
        assert isinstance(base, ByPosterior)
        found = [
            reweighted(posterior, mask, bench.keys.left_out, self.draws)
            for posterior, mask in zip(base.posteriors, bench.splits.masks, strict=True)
        ]
        k_hat = max(k for _, k in found)
        notes = {**base.notes, "k_hat": k_hat}
        if not k_hat <= LARGEST_K_HAT:
            notes["refused"] = f"k̂ = {k_hat:.2f}: the weights cannot be relied on"
        seconds = base.seconds + time.monotonic() - started
        return ByPosterior([posterior for posterior, _ in found], seconds, notes)


def reweighted(
    posterior: Any, seen: np.ndarray, key: Key, draws: int
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
