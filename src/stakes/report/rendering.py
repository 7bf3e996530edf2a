"""A report as one self-contained page.

Text is escaped by the template, data by `safe_json`, and a content security policy allows only the
scripts whose hashes it lists: a label that got past the escaping still could not run.
"""

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial, singledispatch
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from stakes import checks
from stakes.errors import InputError, StorageError
from stakes.host import files
from stakes.host.packages import how_to_install, missing
from stakes.many import Answers
from stakes.report import pictures, worth
from stakes.report.content import Report
from stakes.report.decision_table import ShownColumn, columns, round_all
from stakes.report.overview import Picture, overview
from stakes.report.pictures import COLORS, METHODS
from stakes.study import unbounded
from stakes.wording import percent, percent_span

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
    from matplotlib.axes import Axes

# Packages of the extra `cli` that a page needs.
NEEDED = ("jinja2", "markupsafe", "matplotlib")
# Scripts of the page, in the order in which they build on each other.
SCRIPTS = ("table.js", "line_chart.js", "what_if.js", "main.js")
# Width of the picture of all decisions, and the most rows in it.
SCREENS = {"large": (900, 90), "small": (420, 30)}
# Widths of pictures of which two or three stand side by side.
HALF, THIRD = 440, 320
# Rows of the decision table that are written into the page, for readers without scripts.
FIRST_ROWS = 15
# Columns on the first screen.
SHORT = ("label", "chosen", "vi", "calibrated", "low", "high", "chance", "cost")


def objection() -> str | None:
    """Return what has to be installed before a page can be made; None where all is."""
    absent = missing(*NEEDED)
    return f"The report needs {', '.join(absent)}: {how_to_install('cli')}." if absent else None


def render(report: Report | Answers) -> str:
    """Return the page as a string.

    Args:
        report: of one calibration, or the answers for many groups.

    Examples:
        >>> import stakes
        >>> from stakes.report import objection, render
        >>> objection() is None  # all that a page needs is installed
        True
        >>> render(stakes.Answers({}, {"north": "InputError: no rows"})).startswith(
        ...     "<!doctype html>"
        ... )
        True
    """
    rule = "what `summarise(...)` or `stakes.map(...)` returns"
    checks.instance("`report`", report, (Report, Answers), rule)
    reason = objection()
    if reason is not None:
        raise InputError(reason)
    # A lone surrogate in a label cannot be encoded in UTF-8.
    return _page(report).encode("utf-8", "replace").decode("utf-8")


@singledispatch
def _page(report: object) -> str:
    """Return the page of a report or of answers."""
    raise NotImplementedError


@_page.register
def _(answers: Answers) -> str:
    rows = [{"group": str(name), **answer.row} for name, answer in answers.answers.items()]
    failed = [(str(name), error) for name, error in answers.failures.items()]
    return _template("groups.html").render(
        rows=rows, failed=failed, policy=_policy(), style=_inline(_file("report.css"))
    )


@_page.register
def _(report: Report) -> str:
    from markupsafe import Markup

    table = report.decisions
    script = "\n".join(_file(name) for name in SCRIPTS)
    shown = columns(table, report.unit, gain=report.verdict.gain)
    short = [column for column in shown if column.name in SHORT]
    overviews = {}
    if report.quality is not None:
        overviews = {screen: overview(table, most) for screen, (_, most) in SCREENS.items()}
    drawn = {
        name: Markup(pictures.svg(name, width, height, draw))
        for name, width, height, draw in _pictures(report, overviews)
    }
    return _template("report.html").render(
        report=report,
        colors=COLORS,
        data=_data(report, shown),
        pictures=drawn,
        overviews=overviews,
        columns=shown,
        answers=_rows(short, report.answer.rows),
        first_rows=_rows(shown, range(min(FIRST_ROWS, len(table)))),
        policy=_policy(script),
        style=_inline(_file("report.css")),
        script=_inline(script),
    )


def _pictures(
    report: Report, overviews: Mapping[str, Picture | None]
) -> Iterator[tuple[str, int, int, "Callable[[Axes], None]"]]:
    """Yield the name of each picture, its width and height, and what draws it.

    Args:
        report: with the content of the pictures.
        overviews: the picture of all decisions, for each size of screen.
    """
    for screen, picture in overviews.items():
        if picture is not None:
            yield f"overview-{screen}", SCREENS[screen][0], 300, picture.draw
    comparison = report.verdict.comparison
    rows = [] if comparison is None else pictures.improvements(comparison, COLORS)
    rows = [row for row in rows if np.isfinite([row.better_by, row.low, row.high]).all()]
    if rows:
        draw = partial(pictures.draw_improvements, rows=rows)
        yield "verdict", HALF, 70 + 34 * len(rows), draw
    if report.actions is not None and report.actions.benefits:
        yield "benefit", HALF, 240, partial(pictures.draw_benefit, table=report.actions)
    if report.curve is not None:
        for i, line in enumerate(report.curve.lines):
            draw = partial(pictures.draw_curve, shown=report.curve, line=line)
            yield f"curve-{i}", HALF, 240, draw
    for i, marginal in enumerate(report.movement.marginals):
        yield f"marginal-{i}", THIRD, 170, partial(pictures.draw_marginal, shown=marginal)
    for i, pair in enumerate(report.movement.pairs):
        yield f"pair-{i}", THIRD, 260, partial(pictures.draw_pair, shown=pair)
    for method, fit in report.fits.items():
        draw = partial(pictures.draw_bound, fit=fit, color=COLORS[method])
        yield f"bound-{method}", HALF, 220, draw
    if report.scale is not None:
        yield "losses", HALF, 220, partial(pictures.draw_losses, scale=report.scale)


def _template(name: str) -> "Template":
    """Return a template of the page, which escapes all text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("stakes.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "json": safe_json,
        "number": number,
        "percent": page_percent,
        "span": page_span,
        "money": worth.money,
        "method": METHODS.__getitem__,
        "words": words,
        "worth": worth.worth_in_words,
    }
    return environment.get_template(name)


def write(report: Report | Answers, path: str | os.PathLike[str]) -> None:
    """Render into a file, which is either complete or not touched at all.

    Args:
        report: as for `render`.
        path: of the file.
    """
    target = checks.path("`path`", path)
    try:
        files.write(target, render(report).encode("utf-8"))
    except StorageError as error:
        said = str(error).replace("Cannot write", "Cannot write the report", 1)
        raise InputError(said) from error


def safe_json(value: object) -> "Markup":
    """Return JSON that is safe inside a script element, whatever its strings contain.

    Examples:
        >>> "<" in safe_json({"label": "</script>"})
        False
    """
    from markupsafe import Markup

    text = json.dumps(
        value, allow_nan=False, separators=(",", ":"), default=lambda array: array.tolist()
    )
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # json has escaped all else outside ASCII, such as U+2028


def number(value: float | str | None, decimals: int | None = None) -> str:
    """Return a number with this many decimals, or four significant digits; a dash for none.

    Args:
        value: a number, or the name of an action, which is returned as it is.
        decimals: after the point.

    Examples:
        >>> number(1234.567), number(0.5, 2), number(None), number("call")
        ('1,235', '0.50', '–', 'call')
    """
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "–"
    if decimals is None:
        size = math.floor(math.log10(abs(value))) if 0 < abs(value) < math.inf else 0
        if not -5 < size < 9:
            return f"{value:.3e}".replace("-", "−")
        decimals = max(3 - size, 0)
        text = f"{value:,.{decimals}f}"
        return (text.rstrip("0").rstrip(".") if decimals else text).replace("-", "−")
    return f"{value:,.{decimals}f}".replace("-", "−")


def words(text: str) -> "Markup":
    """Return a sentence of a terminal as HTML: backticks as code, and true minus signs."""
    from markupsafe import Markup, escape

    signed = re.sub(r"(?<=[\s(])-(?=\d)", "−", text)
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(signed))))


def page_percent(share: float | None, decimals: int = 1) -> str:
    """Return a share in per cent, with a true minus; a dash for what is not known."""
    return percent(share, decimals, unknown="–").replace("-", "−")


def page_span(low: float | None, high: float | None) -> str:
    """An interval of shares in per cent, open where an end is not known; a dash for none."""
    return percent_span(*unbounded(low, high), unknown="–").replace("-", "−")


def _data(report: Report, shown: list[ShownColumn]) -> dict[str, Any]:
    """Return what the scripts of the page work with.

    Args:
        report: with the decision table and the costs that may be varied.
        shown: columns of the table.
    """
    what_if, table = report.what_if, report.decisions
    digits = table.decimals + 2
    data: dict[str, Any] = {
        "decisions": {
            "columns": [column._asdict() for column in shown],
            "taken": [] if table.actions else round_all(table.taken, digits),
            "decimals": table.decimals,
            "rows": len(table),
        },
        "whatIf": None,
    }
    if what_if is not None:
        quantiles = round_all(what_if.quantiles.ravel(), 6 if what_if.dial else digits)
        data["whatIf"] = {**asdict(what_if), "quantiles": quantiles}
    return data


def _rows(shown: list[ShownColumn], rows: Iterable[int]) -> list[list[tuple[ShownColumn, Any]]]:
    """Return cells, each with its column."""
    return [[(column, column.values[row]) for column in shown] for row in rows]


def _policy(*scripts: str) -> str:
    """Return a content security policy that allows these scripts and nothing from elsewhere.

    Each script is allowed by its hash; styles are allowed inline, since pictures have style
    attributes.
    """
    hashes = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(code).decode('ascii')}'" for code in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; "
        "style-src 'unsafe-inline'; "  # pictures have style attributes
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _inline(script: str) -> "Markup":
    """Return a script or style that cannot end its element early.

    A carriage return is refused, too: a browser drops it, and the hash would no longer fit.
    """
    from markupsafe import Markup

    # Either would end the element early, and a carriage return would change the hash.
    assert not any(mark in script.lower() for mark in ("</script", "<!--", "\r"))
    return Markup(script)


def _file(name: str) -> str:
    """Return the text of a file of the page."""
    return resources.files("stakes.report").joinpath("page", name).read_text("utf-8")
