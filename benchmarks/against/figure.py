"""One figure: how much more than the best each tool costs, for every problem and cost."""

from pathlib import Path
from typing import Any

from benchmarks.against import ours

SHOWN = 60.0
"""Per cent; what lies beyond is drawn at the edge."""


def draw(results: dict[str, Any], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "stakes"
    from matplotlib import pyplot

    rows = [
        (f"{result['title']}: {cost}", tools)
        for result in results.values()
        for cost, tools in result["by cost"].items()
    ]
    names = list(dict.fromkeys(tool for _, tools in rows for tool in tools))
    names = list(filter(ours.competes, names))
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.26 * len(rows)), layout="constrained")
    markers = "osv^D<>P*"
    for tool, marker in zip(names, markers, strict=False):
        points = [
            (min(100 * row["more"] / (row["risk"] - row["more"]), SHOWN), place)
            for place, (_, tools) in enumerate(rows)
            if (row := tools.get(tool)) is not None
        ]
        own = tool.startswith("stakes")
        axes.plot(*zip(*points, strict=True), marker, label=tool, ms=9 if own else 5, alpha=0.75)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("more than the best tool, % (at the edge: 60 % or more)")
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, fontsize=7)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
