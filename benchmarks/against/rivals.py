"""The tools people use, each tuned over a few settings on the data of the fit.

A rival turns a setting and data into decisions for new rows under every cost, so that a tool whose
fit does not depend on the cost is fitted once. Some settings are a by-product of others, such as
fewer trees: those are its *variants*. Packages are imported where they are used.
"""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from benchmarks.against.costs import Cost, best_for_samples

Setting = Mapping[str, Any]


class SecondMinimum(Protocol):
    name: str
    settings: Sequence[Setting]
    variants: Sequence[Setting]

    def applies(self, cost: Cost) -> bool: ...

    def decide(
        self,
        setting: Setting,
        x: np.ndarray,
        y: np.ndarray,
        new_x: np.ndarray,
        costs: Sequence[Cost],
    ) -> np.ndarray:
        """(variant, cost, new row)."""
        ...


def grid(**values: Sequence[Any]) -> list[Setting]:
    return [
        dict(zip(values, combined, strict=True)) for combined in itertools.product(*values.values())
    ]


@final
class SameForAll:
    """Sample average approximation: the best single number for the outcomes of the fit."""

    name = "SAA, the best single number"
    settings = variants = ({},)

    def applies(self, cost: Cost) -> bool:
        return True

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        best = [best_for_samples(y[None], cost)[0] for cost in costs]
        return np.broadcast_to(np.array(best)[None, :, None], (1, len(costs), len(new_x)))


@final
class Neighbours:
    """The best single number for the nearest rows of the fit, with all features standardised."""

    name = "nearest neighbours"
    settings = ({},)
    variants = tuple(grid(neighbours=(1, 2, 4, 8, 16, 32, 64, 128)))

    def applies(self, cost: Cost) -> bool:
        return True

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        from sklearn.neighbors import NearestNeighbors

        x, new_x = standardised(x, new_x)
        counts = [min(variant["neighbours"], len(x)) for variant in self.variants]
        near = NearestNeighbors(n_neighbors=max(counts)).fit(x)
        samples = y[near.kneighbors(new_x, return_distance=False)]
        return np.array(
            [[best_for_samples(samples[:, :n], cost) for cost in costs] for n in counts]
        )


@final
class LinearShifted:
    """Ridge regression, moved by what is best for its residuals on rows it did not see."""

    name = "linear + residual quantile"
    settings = tuple(grid(alpha=(0.1, 1.0, 10.0, 100.0)))
    variants = ({},)

    def applies(self, cost: Cost) -> bool:
        return True

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        from sklearn.linear_model import Ridge

        return shifted(lambda: Ridge(**setting), *standardised(x, new_x), y, costs)[None]


@final
class LinearQuantile:
    name = "scikit-learn QuantileRegressor"
    settings = tuple(grid(alpha=(0.001, 0.01, 0.05)))
    variants = ({},)
    most_rows = 4_000
    """The linear program takes minutes beyond: a random part of more rows is used."""

    def applies(self, cost: Cost) -> bool:
        return cost.quantile is not None

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        from sklearn.linear_model import QuantileRegressor

        x, new_x = standardised(x, new_x)
        if len(x) > self.most_rows:
            part = np.random.default_rng(0).choice(len(x), self.most_rows, replace=False)
            x, y = x[part], y[part]
        scale = y.std() or 1.0  # so that alpha means the same for all outcomes
        decided = [
            QuantileRegressor(quantile=cost.quantile, solver="highs", **setting)
            .fit(x, y / scale)
            .predict(new_x)
            * scale
            for cost in costs
        ]
        return np.array(decided)[None]


@final
class LightGBM:
    """Its quantile objective; for other costs its mean, moved by what is best for residuals."""

    name = "LightGBM"
    settings = tuple(grid(num_leaves=(4, 8, 16), min_child_samples=(20,)))
    variants = tuple(grid(trees=(25, 50, 100, 200, 400)))

    def applies(self, cost: Cost) -> bool:
        return True

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        import lightgbm

        most = max(variant["trees"] for variant in self.variants)

        def fitted(rows_x: np.ndarray, rows_y: np.ndarray, **objective: Any) -> Any:
            return lightgbm.LGBMRegressor(
                n_estimators=most, learning_rate=0.05, verbose=-1, n_jobs=1, **objective, **setting
            ).fit(rows_x, rows_y)

        def staged(model: Any, rows: np.ndarray) -> np.ndarray:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of feature names that were never given
                stages = [
                    model.predict(rows, num_iteration=variant["trees"]) for variant in self.variants
                ]
            return np.array(stages)

        return boosted(fitted, staged, ("quantile", "alpha"), x, y, new_x, costs)


@final
class HistGradientBoosting:
    """Its quantile loss; for other costs its mean, moved by what is best for residuals."""

    name = "scikit-learn HistGradientBoosting"
    settings = tuple(grid(max_leaf_nodes=(4, 8), min_samples_leaf=(20,)))
    variants = tuple(grid(trees=(25, 50, 100, 200)))

    def applies(self, cost: Cost) -> bool:
        return True

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        from sklearn.ensemble import HistGradientBoostingRegressor

        wanted = [variant["trees"] for variant in self.variants]

        def fitted(rows_x: np.ndarray, rows_y: np.ndarray, **objective: Any) -> Any:
            named = {"loss": objective.pop("objective", "squared_error"), **objective}
            return HistGradientBoostingRegressor(
                max_iter=max(wanted), learning_rate=0.05, early_stopping=False, **named, **setting
            ).fit(rows_x, rows_y)

        def staged(model: Any, rows: np.ndarray) -> np.ndarray:
            stages = enumerate(model.staged_predict(rows), start=1)
            return np.array([stage for count, stage in stages if count in wanted])

        return boosted(fitted, staged, ("quantile", "quantile"), x, y, new_x, costs)


@final
@dataclass(frozen=True)
class QuantileForest:
    """Quantiles of the outcomes in the leaves; for other costs the best for 200 such quantiles."""

    trees: int = 100
    name = "quantile-forest"
    settings = tuple(grid(min_samples_leaf=(5, 10, 20, 40), max_features=(0.33, 1.0)))
    variants = ({},)

    def applies(self, cost: Cost) -> bool:
        return True

    def decide(self, setting, x, y, new_x, costs):  # type: ignore[no-untyped-def]
        from quantile_forest import RandomForestQuantileRegressor

        forest = RandomForestQuantileRegressor(
            n_estimators=self.trees, random_state=0, n_jobs=1, **setting
        ).fit(x, y)
        levels = (np.arange(200) + 0.5) / 200
        asked = sorted({cost.quantile for cost in costs if cost.quantile is not None})
        needs_sample = any(cost.quantile is None for cost in costs)
        found = forest.predict(new_x, quantiles=[*asked, *(levels if needs_sample else ())])
        found = np.asarray(found).reshape(len(new_x), -1)
        sample = found[:, len(asked) :]
        decided = [
            best_for_samples(sample, cost)
            if cost.quantile is None
            else found[:, asked.index(cost.quantile)]
            for cost in costs
        ]
        return np.array(decided)[None]


RIVALS: tuple[SecondMinimum, ...] = (
    SameForAll(),
    LinearShifted(),
    Neighbours(),
    LinearQuantile(),
    HistGradientBoosting(),
    LightGBM(),
    QuantileForest(),
)


def boosted(fitted, staged, quantile_named, x, y, new_x, costs):  # type: ignore[no-untyped-def]
    """(variant, cost, row): one fit for each quantile, and one of the mean for all other costs."""
    objective, level = quantile_named
    others = [cost for cost in costs if cost.quantile is None]
    if others:
        folds = blocks_or_rows(len(x))
        residuals = np.concatenate(
            [
                y[out] - staged(fitted(np.delete(x, out, 0), np.delete(y, out)), x[out])
                for out in folds
            ],
            axis=1,
        )
        means = staged(fitted(x, y), new_x)
        moved = {cost: means + best_for_samples(residuals, cost)[:, None] for cost in others}
    return np.stack(
        [
            moved[cost]
            if cost.quantile is None
            else staged(fitted(x, y, objective=objective, **{level: cost.quantile}), new_x)
            for cost in costs
        ],
        axis=1,
    )


def shifted(make, x, new_x, y, costs):  # type: ignore[no-untyped-def]
    """(cost, row): a model of the mean, moved by what is best for its out-of-fold residuals."""
    residuals = np.concatenate(
        [
            y[out] - make().fit(np.delete(x, out, 0), np.delete(y, out)).predict(x[out])
            for out in blocks_or_rows(len(x))
        ]
    )
    mean = make().fit(x, y).predict(new_x)
    return np.array([mean + best_for_samples(residuals[None], cost)[0] for cost in costs])


def blocks_or_rows(count: int, folds: int = 5) -> list[np.ndarray]:
    """Consecutive rows, which serves data in order of time and shuffled data alike."""
    return np.array_split(np.arange(count), folds)


def standardised(x: np.ndarray, new_x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """On the scale of the rows of the fit."""
    scale = x.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (x - x.mean(axis=0)) / scale, (new_x - x.mean(axis=0)) / scale
