"""Pictures of decisions for notebooks: Matplotlib axes in, Matplotlib axes out.

Each function draws on the axes it is given, or on new ones, and returns them. Colours are those of
the report: plain VI blue, calibrated orange. Needs Matplotlib, which the extra `plot` installs.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from stakes import checks
from stakes.errors import InputError, some
from stakes.host.packages import how_to_install, missing
from stakes.problem import Problem
from stakes.report import (
    COLORS,
    INK,
    MARKERS,
    METHODS,
    Mark,
    Range,
    before_data,
    density_of,
    draw_band,
    draw_cases,
    draw_improvements,
    draw_marginal,
    improvements,
    moved_latents,
)
from stakes.study import Calibration, Cases, Choice, Comparison

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["decisions", "expected_loss", "posterior", "reduction"]

# The colour of a prior, beside those of posteriors.
PRIOR = "#999999"
# Cases whose labels are all written below the axis.
MOST_NAMED = 30
# Draws behind the density of a prior.
PRIOR_DRAWS = 4000
# Decisions at which a curve is computed.
POINTS = 41

# A case: its number, or its label along each axis of the decisions.
Place: TypeAlias = int | str | tuple[int | str, ...]


def decisions(result: Calibration | Cases | Choice, *, ax: "Axes | None" = None) -> "Axes":
    """Decisions over what is predicted, with the observed outcomes.

    The thin line is the central 90 % of what is predicted, the thick one the central 50 %: by the
    calibrated fit, or by the chosen strategy.

    Args:
        result: the result of `calibrate`, for the decisions of both fits; `result.assess(data)`,
            for other cases; or the result of `choose`, for the decisions of the chosen strategy.
        ax: the axes to draw on; new ones by default.

    Examples:
        >>> import jax, stakes, stakes.plot
        >>> from stakes.demos import eight_schools
        >>> problem, data = eight_schools.problem(), eight_schools.data()
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
        >>> stakes.plot.decisions(result).get_ylabel()
        'effect'
    """
    rule = "what `calibrate(...)`, `result.assess(...)` or `choose(...)` returns"
    checks.instance("`decisions(result)`", result, (Calibration, Cases, Choice), rule)
    _check_axes(ax)
    problem, labelled, taken, names, central, observed = _shown(result)
    if not np.issubdtype(labelled.dtype, np.number):
        raise InputError("`decisions(result)` draws numbers, and these decisions are actions.")
    marks = [Mark(names[m], MARKERS[m], COLORS[m], values.ravel()) for m, values in taken.items()]
    if observed is not None:
        marks.append(Mark("observed", ".", INK, observed.ravel()))
    ranges = []
    if central is not None:
        low, lower, upper, high = central.T
        ranges = [Range("90 % predicted", low, high, 1.2), Range("50 % predicted", lower, upper, 4)]
    ax = _axes(ax)
    draw_cases(ax, ranges, marks, color=COLORS["LCVI"])
    _name_cases(ax, labelled)
    ax.set_ylabel(problem.outcome)
    ax.legend(frameon=False)
    return ax


class _Shown(NamedTuple):
    """Decisions about cases, and what is known of these."""

    problem: Problem
    labelled: "xr.DataArray"
    taken: Mapping[str, np.ndarray]
    names: Mapping[str, str]
    central: np.ndarray | None
    observed: np.ndarray | None


def _shown(result: Calibration | Cases | Choice) -> _Shown:
    """Return decisions about the cases of a result, and what is known of these."""
    match result:
        case Choice():
            cases = result.study.home
        case Calibration():
            cases = result.on_fit
        case _:
            cases = result
    cases.problem.check_single("`decisions(result)`")
    if isinstance(result, Choice):
        fitted = result.fitted()
        labelled, forecast = cases.labels(fitted.decide(cases)), fitted.predict(cases)
        taken, names = {"LCVI": labelled.values}, {"LCVI": result.chosen}
    else:
        labelled, forecast = cases.decisions, cases.forecast(cases.posteriors["LCVI"])
        taken, names = cases.by_posterior, METHODS
    central = None if forecast is None else forecast.central
    observed = None if cases.observed is None else cases.observed.values
    return _Shown(cases.problem, labelled, taken, names, central, observed)


def expected_loss(
    result: Calibration,
    case: Place = 0,
    *,
    decisions: Sequence[float] | None = None,
    draws: int = 500,
    ax: "Axes | None" = None,
) -> "Axes":
    """What decisions about one case would cost on average, or be worth: a curve with a band.

    The band contains the expected cost with a posterior probability of 90 %: what a decision costs
    on average depends on parameters that are not known for certain. Lines mark the decisions of
    both fits.

    Args:
        result: the result of `calibrate`.
        case: its number, or its label; a pair of these where decisions have two axes.
        decisions: the decisions at which the curve is computed; by default over the range of what
            is predicted.
        draws: the number of draws of the posterior.
        ax: the axes to draw on; new ones by default.

    Examples:
        >>> import jax, stakes, stakes.plot
        >>> from stakes.demos import eight_schools
        >>> problem, data = eight_schools.problem(), eight_schools.data()
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
        >>> ax = stakes.plot.expected_loss(result, decisions=[-10.0, -5.0, 0.0])
        >>> ax.get_xlabel()
        'decision about effect'
    """
    checks.instance("`expected_loss(result)`", result, Calibration, "what `calibrate(...)` returns")
    _check_axes(ax)
    draws = checks.whole("`expected_loss(draws=...)`", draws)
    result.problem.check_single("`expected_loss(result)`")
    cases = result.on_fit
    place = _place(case, cases)
    number = int(np.ravel_multi_index(place, cases.instances.shape)) if place else 0
    tried = _tried(cases, number) if decisions is None else decisions
    found = result.expected(tried, draws=draws)
    names = ("mean", "low", "high")
    curves = [found[name].values.reshape(len(tried), -1)[:, number] for name in names]
    ax = _axes(ax)
    draw_band(ax, np.asarray(tried), np.stack(curves), COLORS["LCVI"])
    for method, taken in cases.by_posterior.items():
        style: dict[str, Any] = {"color": COLORS[method], "linestyle": "--", "linewidth": 1}
        ax.axvline(taken.ravel()[number], label=f"decision, {METHODS[method]}", **style)
    ax.set_xlabel(f"decision about {result.problem.outcome}")
    ax.set_ylabel("expected utility" if result.problem.loss is None else "expected cost")
    ax.legend(frameon=False)
    return ax


def reduction(result: Calibration | Comparison | Choice, *, ax: "Axes | None" = None) -> "Axes":
    """How much better decisions are than those of plain VI, with 95 % intervals.

    Args:
        result: `result.compare(...)`; `calibrate(...)`, for the data of the fit; or `choose(...)`,
            for all its ways.
        ax: the axes to draw on; new ones by default.

    Examples:
        >>> import numpy as np, stakes, stakes.plot
        >>> costs = {"VI": np.arange(20.0), "LCVI": 0.9 * np.arange(20.0)}
        >>> found = stakes.Comparison(costs, gain=False, setting="", held_out=True)
        >>> [text.get_text() for text in stakes.plot.reduction(found).get_yticklabels()]
        ['Calibrated']
    """
    rule = "what `result.compare(...)`, `calibrate(...)` or `choose(...)` returns"
    checks.instance("`reduction(result)`", result, (Calibration, Comparison, Choice), rule)
    _check_axes(ax)
    comparison, colors = _compared(result)
    ax = _axes(ax)
    draw_improvements(ax, improvements(comparison, colors))
    ax.set_xlabel("better than plain VI by (%), with 95 % intervals")
    return ax


def _compared(result: Calibration | Comparison | Choice) -> tuple[Comparison, Mapping[str, str]]:
    """Return a comparison, and the colour of each method."""
    match result:
        case Choice():
            colors = {name: COLORS["VI"] for name in result.comparison.costs}
            return result.comparison, {**colors, result.chosen: COLORS["LCVI"]}
        case Calibration():
            return result.compare(), COLORS
    return result, COLORS


def posterior(result: Calibration, latent: int | str = 0, *, ax: "Axes | None" = None) -> "Axes":
    """What calibration moved: the prior of a latent, and its posterior by plain and calibrated VI.

    Args:
        result: the result of `calibrate`.
        latent: 0 for the one that calibration moved most, 1 for the next, up to 5; or the name of
            one of these, such as "theta[A]".
        ax: the axes to draw on; new ones by default.

    Examples:
        >>> import jax, stakes, stakes.plot
        >>> from stakes.demos import eight_schools
        >>> problem, data = eight_schools.problem(), eight_schools.data()
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
        >>> [line.get_label() for line in stakes.plot.posterior(result, "mu").get_lines()]
        ['Prior', 'Plain VI', 'Calibrated']
    """
    checks.instance("`posterior(result)`", result, Calibration, "what `calibrate(...)` returns")
    _check_axes(ax)
    moved = moved_latents(result, None).marginals
    names = [marginal.name for marginal in moved]
    is_place = _is_whole(latent) and 0 <= latent < len(names)
    if not is_place and not (isinstance(latent, str) and latent in names):
        where = "`posterior(latent=...)`"
        raise checks.refused(where, f"a number below {len(names)}, or one of {some(names)}", latent)
    marginal = moved[names.index(latent) if isinstance(latent, str) else latent]
    ax = _axes(ax)
    before = before_data(result, marginal.element, PRIOR_DRAWS)
    if before is not None:
        ax.plot(marginal.grid, _density(before, marginal.grid), color=PRIOR, ls=":", label="Prior")
    draw_marginal(ax, marginal)
    ax.set_xlabel(marginal.name)
    ax.legend(frameon=False)
    return ax


def _check_axes(ax: "Axes | None") -> None:
    """Before anything is computed."""
    if missing("matplotlib"):
        raise InputError(f"`stakes.plot` needs matplotlib: {how_to_install('plot')}.")
    from matplotlib.axes import Axes

    if ax is not None:
        checks.instance("`ax=`", ax, Axes, "axes of Matplotlib, such as `plt.subplots()[1]`")


def _axes(ax: "Axes | None") -> "Axes":
    """Return the axes, or new ones, without a frame above and to the right."""
    import matplotlib.pyplot as plt

    drawn = plt.subplots(layout="constrained")[1] if ax is None else ax
    drawn.spines[["top", "right"]].set_visible(False)
    return drawn


def _name_cases(ax: "Axes", found: "xr.DataArray") -> None:
    """Write the labels of a few cases below the axis."""
    if found.ndim != 1 or found.size > MOST_NAMED:
        ax.set_xlabel("case")
        return
    (dim,) = found.dims
    names = [str(label) for label in found.coords[dim].values]
    tilt = 30 if max(map(len, names)) * len(names) > 60 else 0
    ax.set_xticks(range(len(names)), names, rotation=tilt, ha="right" if tilt else "center")
    ax.set_xlabel(str(dim))


def _place(case: Place, cases: Cases) -> tuple[int, ...]:
    """Return the number of a case along each axis."""
    found, where = cases.decisions, "`expected_loss(case=...)`"
    given = case if isinstance(case, tuple) else (case,)
    if found.ndim and len(given) != found.ndim:
        rule = f"one number or label for each of {some(map(str, found.dims))}"
        raise checks.refused(where, rule, case)
    places = []
    for dim, each in zip(found.dims, given, strict=False):
        labels = found.coords[dim].values.tolist()
        if isinstance(each, str) and each in map(str, labels):
            each = [str(label) for label in labels].index(each)
        if not _is_whole(each) or not 0 <= each < len(labels):
            rule = f"a number below {len(labels)}, or a label: {some(map(str, labels))}"
            raise checks.refused(where, rule, case)
        places.append(int(each))
    return tuple(places)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _tried(cases: Cases, number: int) -> np.ndarray:
    """Return decisions from one end of what is predicted to the other, or all actions."""
    actions = cases.problem.space.actions
    if actions is not None:
        return np.asarray(actions, float)
    low, high = np.quantile(cases.drawn(cases.posteriors["LCVI"])[:, number], (0.005, 0.995))
    return np.linspace(low, high, POINTS)


def _density(draws: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the density of a prior on the grid of the posterior, beyond which it may reach."""
    inside = (draws >= grid[0]) & (draws <= grid[-1])
    found: np.ndarray = inside.mean() * density_of(draws[:, None], [grid])
    return found
