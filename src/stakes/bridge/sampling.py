"""Draws of NUTS, and whether they can be taken for draws from the posterior.

The checks are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization,
folding, and localization: an improved R-hat", Bayesian Analysis 16 (2021): several chains, R-hat at
most 1.01, and at least 400 effective draws. NUTS is the reference for other strategies, so a chain
that has not mixed is said to be unreliable, rather than reported as the truth.
"""

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from stakes._types import Array, Key
from stakes.bridge.approximation import NumPyroApproximation
from stakes.bridge.model_trace import ModelTrace
from stakes.bridge.sites import Counting
from stakes.errors import InputError, listed, some

if TYPE_CHECKING:
    from numpyro.infer import MCMC

# At least four, as Vehtari et al. advise: fewer do not show that chains disagree.
CHAINS = 4
# Of each chain: R-hat compares the halves of chains.
FEWEST_DRAWS = 4
# The bounds of Vehtari et al. (2021): with 100 effective draws of each chain, R-hat and quantiles
# can be told.
LARGEST_R_HAT = 1.01
FEWEST_EFFECTIVE = 400


class Mixing(NamedTuple):
    """How well the chains mix in the worst element of a latent.

    Attributes:
        r_hat: 1 where all chains, and their halves, agree.
        effective: how many independent draws the draws are worth.
    """

    latent: str
    r_hat: float
    effective: float


@final
@dataclass(frozen=True)
class Diagnostics:
    """How far the draws of several chains can be taken for draws from the posterior.

    Attributes:
        draws: of each chain.
    """

    chains: int
    draws: int
    mixing: tuple[Mixing, ...]
    divergences: int

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the draws, in words; empty where nothing is."""
        apart = [f"{m.latent} {m.r_hat:.2f}" for m in self.mixing if not m.r_hat <= LARGEST_R_HAT]
        few = [
            f"{m.latent} {m.effective:.0f}"
            for m in self.mixing
            if not m.effective >= FEWEST_EFFECTIVE
        ]
        problems = [
            f"R-hat is above {LARGEST_R_HAT} ({listed(apart)})" if apart else "",
            f"fewer than {FEWEST_EFFECTIVE} effective draws ({listed(few)})" if few else "",
            f"{self.divergences} divergent steps" if self.divergences else "",
        ]
        return tuple(problem for problem in problems if problem)

    @property
    def warning(self) -> str:
        """What to think of the draws and what to do; empty where nothing is wrong."""
        if not self.problems:
            return ""
        return (
            f"NUTS is not a reliable reference here: {'; '.join(self.problems)}. Take more draws; "
            f"against divergences, write the model with standardised latents."
        )

    def __str__(self) -> str:
        r_hat = max((m.r_hat for m in self.mixing), default=float("nan"))
        effective = min((m.effective for m in self.mixing), default=float("nan"))
        return (
            f"NUTS: {self.chains} chains of {self.draws} draws; R-hat up to {r_hat:.3f}, at least "
            f"{effective:.0f} effective draws, {self.divergences} divergent steps."
        )


class Sampled(NamedTuple):
    """Draws of every latent along a leading axis, one chain after the other.

    Attributes:
        samples: latent -> draws of the chains that were run.
        diagnostics: how well these chains agree.
    """

    samples: dict[str, Array]
    diagnostics: Diagnostics


def nuts(
    approximation: NumPyroApproximation, key: Key, *, warmup: int, draws: int, progress: bool
) -> Sampled:
    """Sample the posterior by NUTS.

    Args:
        approximation: the model with its data, and which outcomes count.
        key: for the chains, which start at different points.
        warmup: steps of each chain before the draws that are kept.
        draws: how many to keep in all; up to a few more, since each chain keeps as many.
        progress: whether to show a bar, on a terminal.
    """
    check_sampling(approximation)
    sampler = _sampler(approximation.trace, warmup, max(FEWEST_DRAWS, -(-draws // CHAINS)))
    sampler.progress_bar = progress and sys.stderr.isatty()
    sampler.run(key, approximation.arrays, approximation.counted)
    chains = sampler.get_samples(group_by_chain=True)
    chains = {name: chains[name] for name in approximation.latents}
    divergences = int(sampler.get_extra_fields()["diverging"].sum())
    samples = {name: drawn.reshape(-1, *drawn.shape[2:]) for name, drawn in chains.items()}
    return Sampled(samples, diagnose(chains, divergences))


def check_sampling(approximation: NumPyroApproximation) -> None:
    """Refuse a model that NUTS cannot sample."""
    if approximation.trace.learned:
        raise InputError(
            f"NUTS does not learn the model's own parameters "
            f"{some(approximation.trace.learned)}; make them latents to compare with it."
        )
    if approximation.subsamples:
        plates = [part.plate for part in approximation.subsamples]
        raise InputError(
            f"NUTS needs the whole data at each step, but the model subsamples {some(plates)}. "
            f"Compare without it, or make the minibatch as large as the plate."
        )


@functools.lru_cache(maxsize=8)
def _sampler(trace: ModelTrace, warmup: int, draws: int) -> "MCMC":
    """Return a sampler for a model, compiled once: folds share it.

    A target acceptance of 0.95 takes shorter steps than NumPyro's 0.8, and so goes through narrower
    places without divergences.
    """
    from numpyro.infer import MCMC, NUTS

    def model(arrays: dict[str, Array], counted: Array | None) -> None:
        with Counting(trace.outcome, counted):
            trace.model(**trace.constants, **arrays)

    return MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        jit_model_args=True,
    )


def diagnose(chains: dict[str, Array], divergences: int) -> Diagnostics:
    """Compare chains with each other.

    Args:
        chains: latent -> draws: chain x draw x element.
        divergences: steps at which the numerical solution broke down.
    """
    count, draws = next(iter(chains.values())).shape[:2]
    mixing = tuple(_mixing(name, np.asarray(drawn)) for name, drawn in chains.items())
    return Diagnostics(count, draws, mixing, divergences)


def _mixing(latent: str, drawn: np.ndarray) -> Mixing:
    """Return R-hat and effective draws of the worst element of a latent.

    Both are of ranks, so that heavy tails do no harm; R-hat also of the distance from the median,
    which shows chains that differ in their spread alone.
    """
    from arviz_stats.base import array_stats  # takes a quarter of a second to import

    with np.errstate(invalid="ignore", divide="ignore"):  # of draws that are all the same
        r_hat = array_stats.rhat(drawn, chain_axis=0, draw_axis=1, method="rank")
        effective = array_stats.ess(drawn, chain_axis=0, draw_axis=1, method="bulk")
    return Mixing(latent, float(np.max(r_hat)), float(np.min(effective)))
