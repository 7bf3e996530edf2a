"""Draws from the posterior itself."""

from stakes._types import Array, Key
from stakes.bridge.approximation import NumPyroApproximation
from stakes.errors import InputError, some


def nuts(
    approximation: NumPyroApproximation, key: Key, *, warmup: int, draws: int, progress: bool
) -> dict[str, Array]:
    """Draws from the posterior itself, the ideal that an approximation is compared to."""
    from numpyro.infer import MCMC, NUTS

    if approximation.cases.learned:
        raise InputError(
            f"NUTS does not learn the model's own parameters "
            f"{some(approximation.cases.learned)}; make them latents to compare with it."
        )
    if approximation.subsamples:
        plates = [part.plate for part in approximation.subsamples]
        raise InputError(
            f"NUTS needs the whole data at each step, but the model subsamples {some(plates)}. "
            f"Compare without it, or make the minibatch as large as the plate."
        )
    sampler = MCMC(
        NUTS(approximation.cases.model, target_accept_prob=0.95),
        num_warmup=warmup,
        num_samples=draws,
        progress_bar=progress,
    )
    sampler.run(key, **approximation.data)
    samples = sampler.get_samples()
    return {name: samples[name] for name in approximation.latents}
