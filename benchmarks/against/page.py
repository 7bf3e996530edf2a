"""The page in the docs, made from the results: text from `page.md`, tables and words from here."""

import re
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.against import figure, keeping, ours
from benchmarks.against.problems import yaz

TEXT = Path(__file__).with_name("page.md")
PAGE = keeping.ROOT / "docs/against.md"
FIGURE = keeping.ROOT / "docs/against/differences.svg"
PLACE = re.compile(r"<!-- (\w+) -->")


def write() -> None:
    found = keeping.results()
    if found:
        figure.draw(found, FIGURE)
        PAGE.write_text(made(TEXT.read_text(), found))


def made(text: str, results: dict[str, Any]) -> str:
    parts = {
        "standing": standing(results),
        "words": words(results),
        "winners": winners(results),
        "choices": choices(results),
        "published": published(results),
        "tables": "\n\n".join(_section(result) for result in results.values()),
        "versions": _versions(results),
    }
    return PLACE.sub(lambda place: parts[place[1]], text)


def standing(results: dict[str, Any]) -> str:
    """How each tool did over all pairs of problem and cost on which `stakes` has been run."""
    pairs = [
        tools
        for result in results.values()
        for tools in result["by cost"].values()
        if ours.CHOSEN in tools
    ]
    found = []
    for tool in filter(ours.competes, dict.fromkeys(tool for tools in pairs for tool in tools)):
        own = [tools[tool] for tools in pairs if tool in tools]
        gaps = [100 * row["more"] / (row["risk"] - row["more"]) for row in own]
        best = sum(_best(tools) == tool for tools in pairs)
        behind = sum(row["low"] > 0 for row in own)
        seconds = sum(row["seconds"] for row in own)
        middle = median(gaps)
        cells = [tool, len(own), best, behind, f"{middle:.1f} %", f"{max(gaps):.0f} %"]
        found.append((middle, [str(cell) for cell in (*cells, f"{seconds:.0f}")]))
    head = ["tool", "run on", "best on", "reliably behind the best on"]
    head += ["more than the best: median", "at most", "processor seconds"]
    return _markdown([head, *(cells for _, cells in sorted(found))])


def words(results: dict[str, Any]) -> str:
    """Who wins where, in a sentence or two for each problem."""
    return "\n".join(
        f"- **{each['title']}**: {_told(each['by cost'])}" for each in results.values()
    )


def _told(by_cost: dict[str, Any]) -> str:
    best = Counter(_best(tools) for tools in by_cost.values())
    ranked = ", ".join(f"{tool} ({count} of {len(by_cost)})" for tool, count in best.most_common())
    told = [f"least risk by {ranked}."]
    own = {cost: tools[ours.CHOSEN] for cost, tools in by_cost.items() if ours.CHOSEN in tools}
    if not own:
        return f"{told[0]} `stakes` has not been run on it yet."
    behind = [cost for cost, row in own.items() if row["low"] > 0]
    even = [cost for cost in own if cost not in behind]
    if behind:
        told.append(f"`stakes` is reliably behind the best at {', '.join(behind)}.")
    if even:
        told.append(f"`stakes` is the best, or cannot be told from it, at {', '.join(even)}.")
    if len(own) < len(by_cost):
        told.append("The other costs have not been run yet.")
    return " ".join(told)


def _best(tools: dict[str, Any]) -> str:
    return min(filter(ours.competes, tools), key=lambda tool: tools[tool]["risk"])


def winners(results: dict[str, Any]) -> str:
    """For each contest and cost, who was best and how far behind the chosen way was."""
    rows = [["problem", "cost", "best", "risk", "`stakes`, as chosen: more than the best (95 %)"]]
    for result in results.values():
        for cost, tools in result["by cost"].items():
            best, own = _best(tools), tools.get(ours.CHOSEN)
            mine = "not run yet" if own is None else _gap(own)
            rows.append([result["title"], cost, best, f"{tools[best]['risk']:.4g}", mine])
    return _markdown(rows)


def choices(results: dict[str, Any]) -> str:
    """How good the choices among ways were, over all problems; and where each went wrong."""
    found = [
        (f"{result['title']}, {each['table']}" if result["tables"] > 1 else result["title"], each)
        for result in results.values()
        for each in result.get("choices", ())
    ]
    if not found:
        return "No choice has been made yet."
    every = [each for _, each in found]
    worse = [row for row in found if row[1]["more than plain"][1] > 0]
    better = sum(each["more than plain"][2] < 0 for each in every)
    near = sum(each["more than best"] <= 0.01 for each in every)
    ways = Counter(each["chosen"] for each in every).most_common()
    told = (
        f"{len(every)} problems, each an outcome and a cost. The chosen way is reliably worse than "
        f"plain VI on {len(worse)} ({100 * len(worse) / len(every):.0f} %), reliably better on "
        f"{better}, and within 1 % of the risk of the best way, known in hindsight, on {near} "
        f"({100 * near / len(every):.0f} %). Chosen were "
        f"{', '.join(f'{way} ({count})' for way, count in ways)}."
    )
    rows = [["problem", "cost", "chosen", "more than plain VI (95 %)", "best way", "more than it"]]
    for title, each in found:
        more, low, high = (100 * share for share in each["more than plain"])
        if each["chosen"] == "plain VI" and each["more than best"] <= 0.01:
            continue
        gap = "" if each["chosen"] == "plain VI" else f"{more:.1f} % ({low:.1f} to {high:.1f})"
        best = each["best"].removeprefix("stakes, ")
        cells = [title, each["cost"], each["chosen"], gap, best]
        rows.append([*cells, f"{100 * each['more than best']:.1f} %"])
    note = (
        "Where another way was chosen, or plain VI was chosen and another way would have been more "
        "than 1 % better:"
    )
    return f"{told}\n\n{note}\n\n{_markdown(rows)}"


def published(results: dict[str, Any]) -> str:
    """Mean costs of the Yaz data with calendar features, beside those of the published study."""
    if "yaz-calendar" not in results:
        return ""
    measured = {
        tool: (row["risk"], "measured here")
        for tool, row in results["yaz-calendar"]["all costs"].items()
    }
    study = {name: (risk, "published") for name, risk in yaz.PUBLISHED.items()}
    ranked = sorted([*measured.items(), *study.items()], key=lambda row: row[1][0])
    return _markdown(
        [
            ["tool", "mean cost", ""],
            *([name, f"{risk:.2f}", where] for name, (risk, where) in ranked),
        ]
    )


def _section(result: dict[str, Any]) -> str:
    size = f"{result['fitted']:,} rows to fit and {result['judged']:,} to judge"
    if result["tables"] > 1:
        size += f", for each of {result['tables']} outcomes"
    parts = [f"### {result['title']}", f"{size}; {result['unit']}."]
    for cost, tools in result["by cost"].items():
        rows = [[cost, "risk", "more than the best, 95 %", "processor seconds"]]
        for tool, row in sorted(tools.items(), key=lambda item: item[1]["risk"]):
            note = row["note"]
            way = f" ({note['way']})" if isinstance(note, dict) and "way" in note else ""
            rows.append([tool + way, f"{row['risk']:.4g}", _gap(row), f"{row['seconds']:.1f}"])
        parts.append(_markdown(rows))
    return "\n\n".join(parts)


def _gap(row: dict[str, Any]) -> str:
    if row["more"] == row["low"] == row["high"] == 0:
        return "best"
    base = row["risk"] - row["more"]
    more, low, high = (100 * row[end] / base for end in ("more", "low", "high"))
    return f"{more:.1f} % ({low:.1f} to {high:.1f})"


def _versions(results: dict[str, Any]) -> str:
    found = {name: v for result in results.values() for name, v in result["versions"].items()}
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def _markdown(rows: list[list[str]]) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, f"|{' --- |' * len(rows[0])}", *body])
