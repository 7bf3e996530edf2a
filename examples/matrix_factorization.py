"""Matrix factorisation Y ≈ ZW, a prediction for each entry: the paper's second experiment.

Rows of Z are local to the rows of Y, which come in minibatches; W is shared. `observed` masks the
entries that the fit may see; held-out entries of the same rows are used to judge the decisions.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from stakes import checks
from stakes._types import Array


def model(
    observed: Array,
    y: Array | None = None,
    factors: int = 20,
    batch: int = 100,
    sigma_y: float = 1.0,
    sigma_prior: float = 10.0,
) -> None:
    rows, columns = observed.shape
    column = numpyro.plate("column", columns, dim=-1)
    with numpyro.plate("factor", factors, dim=-2), column:
        w = numpyro.sample("w", dist.Normal(0, sigma_prior))
    with numpyro.plate("row", rows, subsample_size=min(batch, rows), dim=-2) as members:
        with numpyro.plate("row_factor", factors, dim=-1):
            z = numpyro.sample("z", dist.Normal(0, sigma_prior))
        with column, numpyro.handlers.mask(mask=observed[members]):
            seen = None if y is None else y[members]
            numpyro.sample("y", dist.Normal(z @ w, sigma_y), obs=seen)


def simulate(
    rows: int = 1000, columns: int = 100, factors: int = 20, *, seed: int = 0
) -> dict[str, Array]:
    """A matrix of that shape with half of its entries observed."""
    rows, columns = checks.whole("`rows=`", rows), checks.whole("`columns=`", columns)
    factors = checks.whole("`factors=`", factors)
    seed = checks.whole("`seed=`", seed, least=0, most=2**63 - 1)
    rng = np.random.default_rng(seed)
    z, w = (
        rng.standard_normal(shape, np.float32) for shape in ((rows, factors), (factors, columns))
    )
    y = z @ w / np.float32(np.sqrt(factors)) + rng.standard_normal((rows, columns), np.float32)
    observed = rng.integers(0, 2, size=(rows, columns), dtype=bool)
    return {"observed": jnp.asarray(observed), "y": jnp.asarray(y)}
