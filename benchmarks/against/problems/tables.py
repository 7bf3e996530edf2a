"""Tables that come with scikit-learn and statsmodels: nothing is fetched."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.against.contest import Contest, Model, Table
from benchmarks.against.costs import Cost, Exponential, Newsvendor, Square
from benchmarks.against.rivals import standardised
from benchmarks.against.ways import quick_ways

TILTED = tuple(Newsvendor(q) for q in (0.1, 0.25, 0.5, 0.75, 0.9))


def diabetes() -> Contest:
    """How far the disease of 442 patients gets within a year; a third of them held out."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    # In standard deviations of the patients of the fit, as the costs are.
    fitted, _ = _parts(len(y), 147)
    middle, scale = y[fitted].mean(), y[fitted].std()
    costs = (*TILTED, Exponential(-1.0), Square(5.0))
    return _contest(
        "diabetes",
        "diabetes",
        "loss per patient",
        costs,
        x,
        (y - middle) / scale,
        147,
        between,
        # From 0 to 400: round numbers around those of the fit, which go from 31 to 346.
        low=-middle / scale,
        high=(400 - middle) / scale,
    )


def engel() -> Contest:
    """What 235 Belgian households of 1857 spent on food, given their income: Engel's data."""
    from statsmodels.datasets import engel

    table = engel.load_pandas().data
    x = np.column_stack([table["income"], np.log(table["income"])])
    y = table["foodexp"].to_numpy() / 100
    return _contest(
        "engel", "Engel's food expenditure", "loss per household", TILTED, x, y, 78, spending
    )


def visits() -> Contest:
    """Visits to a doctor in a year, in the RAND health insurance experiment; 2,000 to fit."""
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    part = table.iloc[np.random.default_rng(3).choice(len(table), 6_000, replace=False)]
    x, y = part.drop(columns="mdvis").to_numpy(float), part["mdvis"].to_numpy(float)
    costs = (*TILTED[2:], Square(5.0))
    return _contest("visits", "RAND doctor visits", "loss per person", costs, x, y, 4_000, counts)


def between(x: Any, low: float, high: float, y: Any = None) -> None:
    """Beta between two ends, whose mean has linear log-odds, with shrunken slopes.

    Its spread is widest in the middle and less towards the ends, as that of the patients of the
    fit; of nine kinds of distribution it fitted them best, each patient by fits without it.
    """
    level = numpyro.sample("level", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(0.5))
    concentration = numpyro.sample("concentration", dist.LogNormal(2, 1))
    with numpyro.plate("feature", x.shape[1]):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        # Kept off the ends, where a beta has no density.
        mean = 0.01 + 0.98 * jax.nn.sigmoid(level + spread * (x @ slope))
        share = dist.Beta(mean * concentration, (1 - mean) * concentration)
        scaled = dist.transforms.AffineTransform(low, high - low)
        numpyro.sample("y", dist.TransformedDistribution(share, scaled), obs=y)


def spending(x: Any, y: Any = None) -> None:
    """Log-normal: the logarithm of what is spent is linear in that of income."""
    level = numpyro.sample("level", dist.Normal(0, 3))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    elasticity = numpyro.sample("elasticity", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.LogNormal(level + elasticity * x[:, 1], noise), obs=y)


def counts(x: Any, y: Any = None) -> None:
    """Negative binomial, log-linear, with unknown dispersion."""
    level = numpyro.sample("level", dist.Normal(1, 1))
    concentration = numpyro.sample("concentration", dist.LogNormal(0, 1))
    with numpyro.plate("feature", x.shape[1]):
        slope = numpyro.sample("slope", dist.Normal(0, 0.3))
    with numpyro.plate("row", len(x)):
        rate = jnp.exp(level + x @ slope)
        numpyro.sample("y", dist.NegativeBinomial2(rate, concentration), obs=y)


def _contest(
    name: str,
    title: str,
    unit: str,
    costs: tuple[Cost, ...],
    x: np.ndarray,
    y: np.ndarray,
    held_out: int,
    model: Any,
    **given: Any,
) -> Contest:
    """`given` are further arguments of the model."""
    fitted, new = _parts(len(y), held_out)
    known, cases = standardised(x[fitted], x[new])
    table = Table(name, x[fitted], y[fitted], x[new], y[new])
    ours = Model(
        model,
        "y",
        {"x": known, "y": y[fitted], **given},
        {"x": cases, "y": y[new], **given},
        known=() if model is spending else ("feature",),
        new=("row",),
        choosing={} if model is spending else {"ways": quick_ways},
    )
    return Contest(name, title, unit, costs, (table,), ours, np.arange(held_out))


def _parts(count: int, held_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit, and the last of a random order, which are held out."""
    order = np.random.default_rng(0).permutation(count)
    return order[:-held_out], order[-held_out:]
