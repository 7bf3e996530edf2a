"""The figures of the experiments: one style, readable at column width, colour-blind safe."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

VI, LCVI, OTHER, FOURTH, FIFTH = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#999999"
COLOURS = (VI, LCVI, OTHER, FOURTH, FIFTH)
"""By Okabe and Ito; plain VI comes first."""
STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "svg.hashsalt": "stakes",
    "svg.fonttype": "none",
}


@contextmanager
def panels(
    folder: Path, name: str, rows: int = 1, columns: int = 1, *, note: str = "", **size: float
) -> Iterator[Any]:
    """Axes to draw on; saved as SVG and PNG under this name at the end."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(STYLE):
        height = size.get("height", 2.4 * rows)
        figure, axes = plt.subplots(
            rows, columns, figsize=(size.get("width", 3.4 * columns), height), layout="constrained"
        )
        yield axes
        if note:
            wrapped = textwrap.fill(note, int(20 * figure.get_figwidth()))
            figure.supxlabel(wrapped, fontsize=6, color="#555555")
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=200)
        plt.close(figure)


def losses(rows: dict[str, dict[str, Any]], folder: Path, note: str) -> None:
    """The sampled estimator, with one seed and one loss, is left to the table."""
    rows = {key: row for key, row in rows.items() if "/nested" not in key}
    names = dict.fromkeys(key.rsplit("/", 1)[0] for key in rows)
    kinds = dict.fromkeys(name.split("/", 1)[1] for name in names)
    with panels(folder, "reductions", 1, len(kinds), note=note, height=2.6) as axes:
        for axis, kind in zip(np.atleast_1d(axes), kinds, strict=True):
            of = {n.split("/")[0]: n for n in names if n.split("/", 1)[1] == kind}
            values = [
                [100 * row["reduction"] for key, row in rows.items() if key.rsplit("/", 1)[0] == n]
                for n in of.values()
            ]
            axis.boxplot(values, tick_labels=list(of), medianprops={"color": LCVI})
            axis.axhline(0, color=FIFTH, linewidth=0.6)
            axis.set(title=kind, ylabel="reduction of test risk, %")
            axis.tick_params(axis="x", labelrotation=20)
    looks = {key: row["look"] for key, row in rows.items() if "look" in row and key.endswith("/0")}
    _traces(looks, folder, note)
    for kind in kinds:
        chosen = {key.split("/")[0]: look for key, look in looks.items() if f"/{kind}/" in key}
        suffix = kind.split()[0].strip(",")
        _predictions(chosen, folder, f"predictions-{suffix}", note)
        _changes(chosen, folder, f"changes-{suffix}", note)


def _traces(looks: dict[str, Any], folder: Path, note: str) -> None:
    """Of seed 0: plain VI, and for each loss both calibrated fits, relative to where each ended."""
    losses = list(dict.fromkeys(key.split("/")[0] for key in looks))
    with panels(folder, "traces", 1, 1 + len(losses), note=note, width=9.5) as (first, *others):
        at, bound = np.array(next(iter(looks.values()))["trace_vi"]).T
        first.plot(at, bound / 1000, color=VI)
        first.set(title="plain VI", xlabel="step", ylabel="bound, thousands")
        first.set_ylim(bound[20] / 1000, bound[20:].max() / 1000 + 0.2)
        for axis, loss in zip(others, losses, strict=True):
            for key, look in looks.items():
                name, kind, _ = key.split("/")
                if name == loss:
                    # Means of ten points: noise, the same in both, would hide one behind the other.
                    trace = np.array(look["trace"])
                    at, bound = trace[len(trace) % 10 :].reshape(-1, 10, 2).mean(axis=1).T
                    style = {"color": LCVI} if "lin" in kind else {"color": OTHER, "dashes": (3, 2)}
                    axis.plot(at, bound - bound[-1], label=kind.split()[0].strip(","), **style)
            axis.set(title=loss, xlabel="step", ylabel="bound less its end")
        others[0].legend(loc="lower right", fontsize=6)


def _predictions(looks: dict[str, Any], folder: Path, name: str, note: str) -> None:
    with panels(folder, name, 1, len(looks), note=note) as axes:
        for axis, (loss, look) in zip(np.atleast_1d(axes), looks.items(), strict=True):
            for i, pair in enumerate(look["pairs"]):
                for shift, method, colour in ((-0.15, "VI", VI), (0.15, "LCVI", LCVI)):
                    low, q1, _, q3, high = pair[method]["quantiles"]
                    axis.plot([i + shift] * 2, [low, high], color=colour)
                    axis.plot([i + shift] * 2, [q1, q3], color=colour, linewidth=4, alpha=0.5)
                    axis.plot(i + shift, pair[method]["decision"], "_", color="black", ms=10)
                axis.plot(i, pair["y"], "x", color=FIFTH)
            axis.set_xticks(range(len(look["pairs"])), [p["column"][:14] for p in look["pairs"]])
            axis.tick_params(axis="x", labelrotation=30)
            axis.set(title=loss, ylabel="log(1 + count)")
        last = np.atleast_1d(axes)[-1]
        for label, style in (
            ("VI, 90 %", {"color": VI}),
            ("calibrated, 90 %", {"color": LCVI}),
            ("50 %", {"color": FIFTH, "linewidth": 4, "alpha": 0.5}),
            ("decision", {"color": "black", "marker": "_", "linestyle": ""}),
            ("observed", {"color": FIFTH, "marker": "x", "linestyle": ""}),
        ):
            last.plot([], [], label=label, **style)
        last.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _changes(looks: dict[str, Any], folder: Path, name: str, note: str) -> None:
    from scipy.stats import gaussian_kde

    with panels(folder, name, note=note) as axis:
        for (loss, look), colour in zip(looks.items(), COLOURS[1:], strict=False):
            change = np.array(look["change"])
            low, high = np.quantile(change, [0.002, 0.998])
            grid = np.linspace(low, high, 200)
            axis.plot(grid, gaussian_kde(change)(grid), color=colour, label=loss)
        axis.axvline(0, color=FIFTH, linewidth=0.6)
        axis.set(xlabel="mean change of a row's decisions", ylabel="density")
        axis.locator_params(axis="x", nbins=5)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def eight_schools(content: dict[str, Any], folder: Path, note: str) -> None:
    with panels(folder, "reduction", note=note) as axis:
        steps = np.array(content["steps"])
        reductions = 100 * np.array(content["reductions"])
        mean, spread = reductions.mean(axis=0), reductions.std(axis=0)
        axis.fill_between(steps, mean - spread, mean + spread, color=LCVI, alpha=0.25, linewidth=0)
        axis.plot(steps, mean, color=LCVI, label=f"mean ± sd of {len(reductions)} starts")
        axis.axhline(0, color=FIFTH, linewidth=0.6)
        axis.set(xlabel="step of the calibrated fit", ylabel="reduction of risk, %")
        axis.legend()
    colours = {"VI": VI, "LCVI": LCVI, "NUTS": FIFTH}
    with panels(folder, "joint-posterior", 1, 3, note=note) as axes:
        for axis, (name, draws) in zip(axes, content["draws"].items(), strict=True):
            axis.plot(
                draws["theta_1"],
                draws["tau"],
                ".",
                ms=1.5,
                alpha=0.4,
                color=colours[name],
                rasterized=True,
            )
            axis.set(title=name, xlabel="θ₁", ylabel="τ", xlim=(-15, 35), yscale="log")
            axis.set_ylim(0.05, 60)
    with panels(folder, "marginals", 1, 2, note=note) as axes:
        for axis, (latent, label) in zip(axes, (("tau", "τ"), ("theta_1", "θ₁")), strict=True):
            edges = np.linspace(*((0, 20) if latent == "tau" else (-15, 30)), 50)
            for name, draws in content["draws"].items():
                axis.hist(
                    draws[latent],
                    edges,
                    density=True,
                    histtype="step",
                    color=colours[name],
                    label=name,
                )
            axis.set(xlabel=label, ylabel="density")
        axes[0].legend()


def algorithms(reductions: dict[str, list[list[float]]], folder: Path, note: str) -> None:
    with panels(folder, "risk-by-time", note=note) as axis:
        for (name, points), colour in zip(reductions.items(), COLOURS, strict=False):
            seconds, reduction = np.array(points).T
            axis.plot(seconds, 100 * reduction, color=colour, label=name)
        axis.axhline(0, color="black", linewidth=0.5)
        axis.set(xlabel="seconds, compilation left out", ylabel="reduction of test risk, %")
        axis.set_ylim(bottom=max(axis.get_ylim()[0], -6))
        axis.set_xscale("log")
        axis.legend(fontsize=6, loc="lower right")


def quantiles(rows: dict[str, dict[str, Any]], folder: Path, note: str) -> None:
    wanted = (
        ("reduction", "reduction of test risk, %", 100.0),
        ("elbo", "ELBO", 1.0),
        ("spread", "sd of E[y|θ]", 1.0),
    )
    with panels(folder, "quantiles", 1, 3, note=note, width=9.0) as axes:
        for axis, (field, label, factor) in zip(axes, wanted, strict=True):
            for transform, colour in (("linearized", LCVI), ("exponential", OTHER)):
                of = [row for name, row in rows.items() if name.startswith(transform)]
                of.sort(key=lambda row: row["scale"])
                scales, values = zip(*((r["scale"], factor * r[field]) for r in of), strict=True)
                axis.plot(scales, values, ".-", color=colour, label=transform)
            axis.set(xlabel="M", ylabel=label, xscale="log")
        axes[0].axhline(0, color=FIFTH, linewidth=0.6)
        lowest = min(100 * row["reduction"] for row in rows.values())
        if lowest < -20:
            axes[0].set_yscale("symlog", linthresh=5)
        axes[0].legend()


def linearization(rows: dict[str, dict[str, Any]], folder: Path, note: str) -> None:
    with panels(folder, "gain-and-elbo", note=note, width=5.2) as axis:
        kinds = list(dict.fromkeys(name.split(",")[0] for name in rows))
        for (name, row), marker in zip(rows.items(), "osD^v<>PX", strict=False):
            colour = COLOURS[kinds.index(name.split(",")[0])]
            axis.plot(row["elbo"] / 1000, row["gain"], marker, label=name, ms=5, color=colour)
        axis.set(xlabel="ELBO, thousands", ylabel="test gain, mean of exp(-(h-y)²)")
        axis.locator_params(axis="x", nbins=5)
        axis.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def corrections(
    rows: dict[str, dict[str, Any]], ways: Sequence[str], folder: Path, note: str
) -> None:
    """By loss, how much less than plain VI's each other way's decisions cost."""
    with panels(folder, "reductions", note=note, width=5.2) as axis:
        width = 0.8 / (len(ways) - 1)
        for at, (way, colour) in enumerate(zip(ways[1:], COLOURS[1:], strict=False)):
            reduced = [100 * (1 - row["risk"][way] / row["risk"][ways[0]]) for row in rows.values()]
            axis.bar(np.arange(len(rows)) + at * width, reduced, width, color=colour, label=way)
        axis.axhline(0, color="black", linewidth=0.5)
        axis.set_xticks(np.arange(len(rows)) + (len(ways) - 2) * width / 2, list(rows))
        axis.set(ylabel="reduction of test risk, %")
        axis.legend(fontsize=6)
