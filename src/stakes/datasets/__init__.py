"""Small real data sets to try decisions on, each as one pandas table.

README.md beside this file has sources and terms.
"""

from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

DISHES = ("calamari", "fish", "shrimp", "chicken", "koefte", "lamb", "steak")
"""The columns of `newsvendor()` that hold demand."""


def retail() -> "pd.DataFrame":
    """How much 1000 customers of an online shop bought of 100 products; a third is not zero.

    Purchase counts, with customers as rows and products as columns, each under its code.

    Source: Online Retail II (D. Chen, UCI Machine Learning Repository, 2019,
    doi:10.24432/C5CG6D), CC BY 4.0; aggregated by customer and product, a selection of both.

    Examples:
        >>> from stakes import datasets
        >>> counts = datasets.retail()
        >>> counts.shape
        (1000, 100)
        >>> int(counts.loc[12359, "21080"])
        12
    """
    table = _read("retail.csv.gz", index_col=0)
    return table.rename_axis(index="customer", columns="product")


def newsvendor() -> "pd.DataFrame":
    """Portions of seven dishes that a restaurant sold on 765 days, with calendar and weather.

    One row per day, by date; features first, then the demand for each of `datasets.DISHES`. On the
    five days with `is_closed` nothing could be sold.

    Source: the Yaz data published with the ddop package (Philippi, Buttler and Stein, Journal of
    Open Source Software, 2021), BSD-3-Clause; features and demand joined into one table.

    Examples:
        >>> from stakes import datasets
        >>> days = datasets.newsvendor()
        >>> days.loc["2013-10-05", "weekday"], int(days.loc["2013-10-05", "steak"])
        ('SAT', 30)
        >>> days[list(datasets.DISHES)].shape
        (765, 7)
    """
    return _read("newsvendor.csv.gz", index_col="date", parse_dates=["date"])


def radon() -> "pd.DataFrame":
    """Radon measured in 919 homes in 85 counties of Minnesota.

    `log_radon` is the logarithm of the level, `floor` is 0 where it was measured in a basement
    and 1 on the first floor, `uranium` is the logarithm of the county's level in the soil.

    Source: example data of ArviZ, Apache-2.0, after Gelman and Hill (Data Analysis Using
    Regression and Multilevel/Hierarchical Models, 2006); made into one row per home.

    Examples:
        >>> from stakes import datasets
        >>> homes = datasets.radon()
        >>> homes.shape, homes["county"].nunique()
        ((919, 4), 85)
    """
    return _read("radon.csv.gz")


def bank_marketing() -> "pd.DataFrame":
    """4,000 marketing calls of a bank: who was called, and whether a deposit was sold (`y`).

    Drawn at random, without replacement, from the 45,211 calls of the source and kept in its
    order: `np.sort(np.random.default_rng(0).choice(45211, 4000, replace=False))` are the rows.
    All 16 features are there; `duration` is known only once the call is over, so it cannot
    be used to decide whom to call.

    Source: Bank Marketing (S. Moro, P. Rita and P. Cortez, UCI Machine Learning Repository, 2014,
    doi:10.24432/C5K306), CC BY 4.0.

    Examples:
        >>> from stakes import datasets
        >>> calls = datasets.bank_marketing()
        >>> calls.shape
        (4000, 17)
        >>> calls["y"].value_counts().to_dict()
        {'no': 3541, 'yes': 459}
    """
    # "unknown" and "none" are categories here, never gaps.
    return _read("bank_marketing.csv.gz", keep_default_na=False)


def _read(name: str, **options: Any) -> "pd.DataFrame":
    import pandas as pd

    with (resources.files(__name__) / "data" / name).open("rb") as file:
        table: pd.DataFrame = pd.read_csv(file, compression="gzip", **options)
    return table
