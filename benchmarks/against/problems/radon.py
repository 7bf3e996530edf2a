"""Radon: a level to assume for homes in counties that the fit knows, and in others."""

from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.against.contest import Contest, Model, Table
from benchmarks.against.costs import Exponential, Newsvendor, Square
from stakes import datasets

COSTS = (Newsvendor(0.1), Newsvendor(0.5), Newsvendor(0.9), Exponential(-1.0), Square(5.0))


def homes() -> Contest:
    """A fifth of the homes held out, at random: the split of `examples.radon`."""
    count = len(datasets.radon())
    held_out = np.random.default_rng(0).permutation(count) < 0.2 * count
    return _contest("radon-homes", "radon, other homes", held_out, known=("county",))


def counties() -> Contest:
    """All homes of a fourth of the counties held out."""
    table = datasets.radon()
    names = np.unique(table["county"])
    chosen = np.random.default_rng(1).permutation(names)[: len(names) // 4]
    held_out = np.isin(table["county"], chosen)
    return _contest("radon-counties", "radon, other counties", held_out)


def levels(county: Any, floor: Any, uranium: Any, log_radon: Any = None) -> None:
    """A level for each county, shrunk towards what its uranium predicts; unknown noise."""
    level = numpyro.sample("level", dist.Normal(1, 1))
    soil = numpyro.sample("soil", dist.Normal(0, 1))
    upstairs = numpyro.sample("upstairs", dist.Normal(0, 1))
    between = numpyro.sample("between", dist.HalfNormal(0.5))
    within = numpyro.sample("within", dist.HalfNormal(1))
    with numpyro.plate("county", len(uranium)):
        own = numpyro.sample("own", dist.Normal(0, 1))
    base = level + soil * uranium + between * own
    with numpyro.plate("home", len(county)):
        mean = base[county] + upstairs * floor
        numpyro.sample("log_radon", dist.Normal(mean, within), obs=log_radon)


def _contest(name: str, title: str, held_out: np.ndarray, known: tuple[str, ...] = ()) -> Contest:
    table = datasets.radon()
    # The tools take consecutive rows for folds; the table is sorted by county.
    order = np.random.default_rng(2).permutation(len(table))
    fitted, new = order[~held_out[order]], order[held_out[order]]
    county, floor, uranium, y = (
        table[column].to_numpy() for column in ("county", "floor", "uranium", "log_radon")
    )
    one_hot = county[:, None] == np.unique(county[fitted])
    x = np.column_stack([floor, uranium, one_hot]).astype(float)

    def arguments(rows: np.ndarray, counties: np.ndarray) -> dict[str, Any]:
        by_county = table.groupby("county")["uranium"].first()
        scale = by_county[np.unique(county[fitted])]
        return {
            "county": np.searchsorted(counties, county[rows]),
            "floor": floor[rows],
            "uranium": ((by_county[counties] - scale.mean()) / scale.std()).to_numpy(),
            "log_radon": y[rows],
        }

    mine = np.unique(county[fitted])
    model = Model(
        levels,
        "log_radon",
        arguments(fitted, mine),
        arguments(new, mine if known else np.unique(county[new])),
        known=known,
        new=("home",) if known else ("home", "county"),
        # Where other counties are decided about, the folds leave out whole counties.
        choosing={} if known else {"by": "county"},
    )
    tables = (Table("homes", x[fitted], y[fitted], x[new], y[new]),)
    return Contest(name, title, "loss per home", COSTS, tables, model, county[new])
