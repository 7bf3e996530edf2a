"""Pictures of decisions for notebooks: Matplotlib axes in, Matplotlib axes out.

Each function draws on the axes it is given, or on new ones, and returns them. Colours are those of
the report: plain VI blue, calibrated orange. Needs Matplotlib, which the extra `plot` installs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from stakes import checks
from stakes.calibration import Assessment, Calibration, Comparison, predictive_quantiles
from stakes.errors import InputError, some
from stakes.host.packages import how_to_install, missing
from stakes.report import COLORS, METHODS, moved_latents, smoothed
from stakes.ways import Choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["decisions", "expected_loss", "posterior", "reduction"]

LEVELS = (0.05, 0.25, 0.75, 0.95)
MARKERS = {"VI": "o", "LCVI": "^"}
INK, PRIOR = "#1d1d1f", "#999999"
MOST_NAMED = 30
"""Cases whose labels are all written below the axis."""
POINTS = 41
"""Decisions that a curve is computed at."""

Place: TypeAlias = int | str | tuple[int | str, ...]
"""A case: its number, or its label along each axis of the decisions."""


def decisions(result: Calibration | Assessment, *, ax: "Axes | None" = None) -> "Axes":
    """Decisions of both fits over what is predicted, and what came.

    The thin line holds 90 % of the calibrated predictions, the thick one 50 %.

    Args:
        result: of `calibrate`, or `result.assess(data)` for other cases.
        ax: the axes to draw on; new ones where left out.

    Examples:
        >>> import jax, stakes, stakes.plot
        >>> from stakes.examples import eight_schools
        >>> problem, data = eight_schools.problem(), eight_schools.data()
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
        >>> stakes.plot.decisions(result).get_ylabel()
        'effect'
    """
    rule = "what `calibrate(...)` or `result.assess(...)` returns"
    checks.instance("`decisions(result)`", result, (Calibration, Assessment), rule)
    cases = result.on_fit if isinstance(result, Calibration) else result
    cases.problem.check_single("`decisions(result)`")
    if not np.issubdtype(cases.decisions.dtype, np.number):
        raise InputError("`decisions(result)` draws numbers, and these decisions are actions.")
    ax = _axes(ax)
    low, lower, upper, high = predictive_quantiles(cases.predicted, np.array(LEVELS)).T
    places = np.arange(len(low))
    color = COLORS["LCVI"]
    ax.vlines(places, low, high, color=color, alpha=0.35, linewidth=1.2, label="90 % predicted")
    ax.vlines(places, lower, upper, color=color, alpha=0.35, linewidth=4, label="50 % predicted")
    for method, found in cases.found.items():
        style: dict[str, Any] = {"color": COLORS[method], "label": METHODS[method]}
        ax.plot(places, found.ravel(), MARKERS[method], markersize=6, **style)
    if cases.observed is not None:
        ax.plot(places, cases.observed.values.ravel(), "_", color=INK, ms=10, label="observed")
    _name_cases(ax, cases)
    ax.set_ylabel(cases.problem.outcome)
    ax.legend(frameon=False)
    return ax


def expected_loss(
    result: Calibration,
    case: Place = 0,
    *,
    decisions: Sequence[float] | None = None,
    draws: int = 500,
    ax: "Axes | None" = None,
) -> "Axes":
    """What decisions about one case would cost on average, or be worth: a curve with a band.

    The band holds the expected cost with 90 % of the posterior probability, since what a decision
    costs on average depends on what is not known for certain. Lines mark the decisions of both
    fits.

    Args:
        result: of `calibrate`.
        case: its number, or its label; a pair of these where decisions have two axes.
        decisions: to compute the curve at; across what is predicted where left out.
        draws: of the posterior.
        ax: the axes to draw on; new ones where left out.

    Examples:
        >>> import jax, stakes, stakes.plot
        >>> from stakes.examples import eight_schools
        >>> problem, data = eight_schools.problem(), eight_schools.data()
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
        >>> ax = stakes.plot.expected_loss(result, decisions=[-10.0, -5.0, 0.0])
        >>> ax.get_xlabel()
        'decision about effect'
    """
    checks.instance("`expected_loss(result)`", result, Calibration, "what `calibrate(...)` returns")
    draws = checks.whole("`expected_loss(draws=...)`", draws)
    result.problem.check_single("`expected_loss(result)`")
    cases = result.on_fit
    place = _place(case, cases)
    number = int(np.ravel_multi_index(place, cases.instances.shape)) if place else 0
    tried = _tried(cases, number) if decisions is None else decisions
    found = result.expected(tried, draws=draws)
    mean, low, high = (
        found[name].values.reshape(len(tried), -1) for name in ("mean", "low", "high")
    )
    ax, color = _axes(ax), COLORS["LCVI"]
    ax.fill_between(tried, low[:, number], high[:, number], color=color, alpha=0.15, linewidth=0)
    ax.plot(tried, mean[:, number], color=color, label="expected, 90 % band")
    for method, each in cases.found.items():
        name = f"decision, {METHODS[method]}"
        ax.axvline(
            each.ravel()[number], color=COLORS[method], linestyle="--", linewidth=1, label=name
        )
    ax.set_xlabel(f"decision about {result.problem.outcome}")
    ax.set_ylabel("expected utility" if result.problem.loss is None else "expected cost")
    ax.legend(frameon=False)
    return ax


def reduction(result: Calibration | Comparison | Choice, *, ax: "Axes | None" = None) -> "Axes":
    """How much better decisions are than those of plain VI, with 95 % intervals.

    Args:
        result: `result.compare(...)`; `calibrate(...)`, for the data of the fit; or `choose(...)`,
            for all its ways.
        ax: the axes to draw on; new ones where left out.

    Examples:
        >>> import numpy as np, stakes, stakes.plot
        >>> costs = {"VI": np.arange(20.0), "LCVI": 0.9 * np.arange(20.0)}
        >>> found = stakes.Comparison(costs, gain=False, setting="", held_out=True)
        >>> [text.get_text() for text in stakes.plot.reduction(found).get_yticklabels()]
        ['Calibrated']
    """
    rule = "what `result.compare(...)`, `calibrate(...)` or `choose(...)` returns"
    checks.instance("`reduction(result)`", result, (Calibration, Comparison, Choice), rule)
    rows = _of_choice(result) if isinstance(result, Choice) else _of_comparison(result)
    ax = _axes(ax)
    ax.axvline(0, color=PRIOR, linestyle="--", linewidth=1)
    for place, (_, value, low, high, color) in enumerate(rows):
        if np.isfinite([low, high]).all():
            ax.plot([100 * low, 100 * high], [place, place], color=color, linewidth=3, alpha=0.5)
        ax.plot(100 * value, place, "o", color=color)
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("better than plain VI by (%), with 95 % intervals")
    return ax


def posterior(result: Calibration, latent: int | str = 0, *, ax: "Axes | None" = None) -> "Axes":
    """What calibration moved: a latent before any data, under plain VI, and calibrated.

    Args:
        result: of `calibrate`.
        latent: 0 for the one that calibration moved most, 1 for the next, up to 5; or the name of
            one of these, such as "theta[A]".
        ax: the axes to draw on; new ones where left out.

    Examples:
        >>> import jax, stakes, stakes.plot
        >>> from stakes.examples import eight_schools
        >>> problem, data = eight_schools.problem(), eight_schools.data()
        >>> result = stakes.calibrate(jax.random.key(0), problem, data, steps=200)
        >>> [line.get_label() for line in stakes.plot.posterior(result, "tau").get_lines()]
        ['Prior', 'Plain VI', 'Calibrated']
    """
    checks.instance("`posterior(result)`", result, Calibration, "what `calibrate(...)` returns")
    moved = moved_latents(result, None).marginals
    names = [marginal.name for marginal in moved]
    is_place = _is_whole(latent) and 0 <= latent < len(names)
    if not is_place and not (isinstance(latent, str) and latent in names):
        where = "`posterior(latent=...)`"
        raise checks.refused(where, f"a number below {len(names)}, or one of {some(names)}", latent)
    marginal = moved[names.index(latent) if isinstance(latent, str) else latent]
    ax = _axes(ax)
    before = _prior(result, marginal.name)
    if before is not None:
        ax.plot(marginal.grid, _density(before, marginal.grid), color=PRIOR, ls=":", label="Prior")
    for method, density in marginal.density.items():
        style: dict[str, Any] = {"color": COLORS[method], "label": METHODS[method]}
        ax.plot(marginal.grid, density, linestyle="--" if method == "VI" else "-", **style)
        ax.fill_between(marginal.grid, density, color=COLORS[method], alpha=0.08, linewidth=0)
    ax.set_xlabel(marginal.name)
    ax.set_yticks([])
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def _axes(ax: "Axes | None") -> "Axes":
    if missing("matplotlib"):
        raise InputError(f"`stakes.plot` needs matplotlib: {how_to_install('plot')}.")
    from matplotlib.axes import Axes

    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    checks.instance("`ax=`", ax, Axes, "axes of Matplotlib, such as `plt.subplots()[1]`")
    assert ax is not None
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _name_cases(ax: "Axes", cases: Assessment) -> None:
    found = cases.decisions
    if found.ndim != 1 or found.size > MOST_NAMED:
        ax.set_xlabel("case")
        return
    (dim,) = found.dims
    names = [str(label) for label in found.coords[dim].values]
    tilt = 30 if max(map(len, names)) * len(names) > 60 else 0
    ax.set_xticks(range(len(names)), names, rotation=tilt, ha="right" if tilt else "center")
    ax.set_xlabel(str(dim))


def _place(case: Place, cases: Assessment) -> tuple[int, ...]:
    """Numbers along each axis."""
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


def _tried(cases: Assessment, number: int) -> np.ndarray:
    """Decisions from one end of what is predicted to the other, or all actions."""
    actions = cases.problem.space.actions
    if actions is not None:
        return np.asarray(actions, float)
    low, high = np.quantile(cases.predicted[:, number], (0.005, 0.995))
    return np.linspace(low, high, POINTS)


def _of_comparison(found: Calibration | Comparison) -> list[tuple[str, float, float, float, str]]:
    compared = found.compare() if isinstance(found, Calibration) else found
    return [
        (METHODS.get(name, name), value, *compared.intervals[name], COLORS.get(name, INK))
        for name, value in compared.reductions.items()
    ]


def _of_choice(found: Choice) -> list[tuple[str, float, float, float, str]]:
    table = found.table.drop(index=found.yardstick.name)
    return [
        (str(name), row["better_by"], row["low"], row["high"], _of(name == found.chosen))
        for name, row in table.iterrows()
    ]


def _of(chosen: bool) -> str:
    return COLORS["LCVI"] if chosen else COLORS["VI"]


def _prior(result: Calibration, name: str) -> np.ndarray | None:
    """Draws of a latent such as theta[A] from the prior; None where it has none of its own."""
    before, (site, _, members) = result.prior(draws=4000), name.partition("[")
    if site not in before:
        return None
    drawn = before[site].squeeze("chain")
    axes = [dim for dim in drawn.dims if dim != "draw"]
    for dim, member in zip(axes, members.rstrip("]").split(", "), strict=False):
        labels = [str(label) for label in drawn.coords[dim].values]
        drawn = drawn.isel({dim: labels.index(member)})
    return np.asarray(drawn.values, float)


def _density(draws: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """On the grid of the posterior, of which the prior may reach far beyond."""
    inside = (draws >= grid[0]) & (draws <= grid[-1])
    found: np.ndarray = inside.mean() * smoothed(draws[:, None], [grid])
    return found
