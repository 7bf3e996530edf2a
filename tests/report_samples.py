"""Reports made by hand, and the labels of somebody who means harm."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np

import stakes
from stakes.demos import eight_schools
from stakes.fitting import Fit, Stop
from stakes.report.actions import ActionTable, Benefit
from stakes.report.content import Origin, Report, Verdict
from stakes.report.convergence import Coverage, Price, ScaleOfLosses
from stakes.report.decision_table import Decisions
from stakes.report.movement import Marginal, Moments, Movement, Pair
from stakes.report.what_if import LEVELS, CostDial, CostLine, Curve, Handle, WhatIf
from stakes.report.worth import Quality, Recommendation
from stakes.study import Saving, Summary, WayLine

NORMAL_QUANTILES = np.quantile(np.random.default_rng(1).normal(size=100_000), LEVELS)


@cache
def small_fit() -> stakes.Calibration:
    """Eight schools, too short a fit to rely on; one for all tests."""
    return stakes.calibrate(
        jax.random.key(0),
        eight_schools.problem(),
        eight_schools.data(),
        steps=200,
        coords={"school": eight_schools.SCHOOLS},
        progress=False,
    )


def sample_report(
    rows: int = 40,
    *,
    kind: str | None = "costs",
    whole_numbers: bool = False,
    text: Callable[[str], str] = str,
    columns: Mapping[str, tuple[Any, ...]] | None = None,
    worth: bool = False,
) -> Report:
    """A report with that many rows; `text` is applied to every text in it that users may set."""
    table = _decisions(rows, text, columns)
    if whole_numbers:
        table = replace(table, calibrated=np.round(table.calibrated))
    if worth:
        table = replace(table, chosen=table.calibrated + 1, costs=0.5 + table.calibrated / 10)
        table = replace(table, **_more(rows, text))
    return Report(
        title=text("Orders for Monday"),
        loss=text("Tilted(q=0.2)"),
        verdict=Verdict(
            sentence=text("Calibration lowers the risk on held-out data by 0.97 %."),
            tone="better",
            gain=False,
            setting=text("Linearized, M = 5"),
            notes=(text("A note."),),
            comparison=_comparison(),
        ),
        decisions=table,
        what_if=None if kind is None else _what_if(kind, table, whole_numbers),
        movement=_movement(text),
        fits=_fits(),
        scale=_scale(text),
        price=Price(
            elbo_vi=-100.0,
            elbo_calibrated=-100.5,
            error=0.02,
            coverage=(Coverage(0.5, 0.51, 0.48), Coverage(0.9, 0.9, 0.88)),
            instances=rows,
            held_out=True,
        ),
        origin=Origin(
            {text("seed"): text("0"), "data": text("orders.csv")},
            command=text("stakes report runs/monday"),
            program=text("import stakes\nprint(1 < 2)"),
        ),
        answer=Recommendation(
            where="of " + text("tomorrow.csv"),
            count=rows,
            every=rows,
            rows=tuple(range(min(rows, 7))),
            total=12.0 * rows,
            actions=(),
            cost=10.5 * rows,
            others=((text("one decision for all"), 20.0 * rows),),
            unit=text("€"),
            about=text("loaves"),
            costs=(1.0, 4.0),
        ),
        quality=Quality(
            outcomes=40,
            unseen=True,
            coverage=((0.9, 0.88, 0.9), (0.5, 0.48, 0.5)),
            expected=12.0,
            realised=12.3,
            error=0.8,
            unit=text("€"),
        ),
        choice=_choice(text) if worth else None,
        unit=text("€") if worth else None,
    )


CHANCES = np.array([0.05, 0.1, 0.2, 0.4, 0.7])
"""Of class 1, in the report about actions, again and again."""


def report_on_actions(rows: int = 40, text: Callable[[str], str] = str) -> Report:
    """A call costs 5, and a buyer who is not called what the customer is worth."""
    report = sample_report(rows, kind=None, text=text)
    chance, worth = np.resize(CHANCES, rows), np.resize([10.0, 20.0, 40.0], rows)
    taken = np.where(chance * worth > 5, 0, 1)
    names = (text("call"), text("skip"))
    table = replace(
        report.decisions,
        calibrated=taken,
        vi=taken,
        actions=names,
        chances={"0": 1 - chance, "1": chance},
    )
    handles = (
        Handle(text("call, if 0"), 5.0, 5.0),
        Handle(text("call, if 1"), 5.0, 5.0),
        Handle(text("skip, if 1: times worth"), 1.0, 5.0),
    )
    return replace(
        report,
        decisions=table,
        what_if=WhatIf(
            kind="table",
            handles=handles,
            levels=np.arange(2),
            rows=np.arange(rows),
            quantiles=np.stack([1 - chance, chance], axis=1),
            whole_numbers=False,
            dial=CostDial(names, (0, 1, -1, 2), (None, None, worth), taken),
        ),
        actions=ActionTable(
            actions=names,
            classes=("0", "1"),
            counts=((12, 8), (17, 3)),
            costs=((60.0, 40.0), (0.0, 55.0)),
            benefits=(Benefit(0.1, 120.0, 100.0), Benefit(0.3, 60.0, -20.0)),
        ),
    )


def report_on_prices(rows: int = 40, text: Callable[[str], str] = str) -> Report:
    """Two regions with a price each; that of the second was never set before."""
    report = sample_report(rows, kind=None, text=text)
    tried = np.linspace(1, 6, 33)

    def line(region: str, best: float, beyond: bool) -> CostLine:
        mean = 10 + (tried - best) ** 2
        return CostLine(text(region), mean, mean - 1, mean + 2, best, (10.0, 9.0, 12.0), beyond)

    return replace(
        report,
        decisions=replace(report.decisions, about=text("price")),
        curve=Curve(
            action=text("price"),
            decisions=tried,
            labels=(),
            lines=(line("region 0", 3.0, False), line("region 1", 5.0, True)),
            groups=2,
            made=(2.0, 4.0),
            beyond=1,
            count=2,
        ),
    )


def _more(rows: int, text: Callable[[str], str]) -> dict[str, Any]:
    """What a run knows about its rows."""
    return {
        "inputs": {
            text("weekday"): tuple(text(f"day {i % 7}") for i in range(rows)),
            text("sunshine"): tuple(round(0.1 * (i % 10), 1) for i in range(rows)),
        },
        "parts": tuple("new" if i < rows // 4 else "fit" for i in range(rows)),
    }


def _choice(text: Callable[[str], str]) -> Summary:
    plain, same = text("plain VI"), text("one decision for all")
    return Summary(
        way=plain,
        base="plain VI",
        verdict=text("Decide by plain VI."),
        folds=text("5 folds of 40 outcomes"),
        outcomes=40,
        gain=False,
        ways=[
            WayLine(plain, text("the best"), 12.3, None, None, None, 0.5, 0.9, 8.0),
            WayLine(same, text("one"), 20.0, -0.63, -0.8, -0.4, None, None, 0.0),
        ],
        saved=[Saving(same, 7.7, 5.0, 10.0)],
        error=0.8,
    )


def _decisions(
    rows: int, text: Callable[[str], str], columns: Mapping[str, tuple[Any, ...]] | None
) -> Decisions:
    place = np.arange(rows)
    observed = 10 + np.sin(place) * 3
    observed[::7] = np.nan
    names = {"dish": tuple(text(f"dish {i}") for i in place), "day": tuple(int(i) for i in place)}
    center = 10 + place % 17
    return Decisions(
        outcome=text("sold"),
        labels={text(name): values for name, values in (columns or names).items()},
        low=center - 1.645,
        high=center + 1.645,
        vi=center - 0.9,
        calibrated=center - 0.8416,
        observed=observed,
        decimals=2,
        total=rows,
        draws=200,
    )


def _what_if(kind: str, table: Decisions, whole_numbers: bool) -> WhatIf:
    rows = np.arange(min(len(table), 2000))
    center = table.calibrated[rows] + 0.8416
    quantiles = center[:, None] + NORMAL_QUANTILES
    return WhatIf(
        kind=kind,
        handles=(
            Handle("cost of a unit short", 1.0, 5.0),
            Handle("cost of a unit too many", 4.0, 5.0),
        )
        if kind == "costs"
        else (Handle("c, how lopsided the loss is", 1.0, 3.0),),
        levels=LEVELS,
        rows=rows,
        quantiles=np.round(quantiles) if whole_numbers else quantiles,
        whole_numbers=whole_numbers,
    )


def _movement(text: Callable[[str], str]) -> Movement:
    rng = np.random.default_rng(0)
    grid = np.linspace(-3, 3, 50)
    density = np.exp(-(grid**2) / 2)
    points = {method: rng.normal(size=(300, 2)) for method in ("VI", "LCVI", "NUTS")}
    return Movement(
        marginals=tuple(
            Marginal(
                text(name),
                (name, 0),
                grid,
                {method: density for method in points},
                {method: Moments(0.0, 1.0, -1.6, 1.6) for method in points},
            )
            for name in ("mu", "theta[A]")
        ),
        pairs=(Pair(text("mu"), text("theta[A]"), points, dict.fromkeys(points, 0.1)),),
        total=10,
        draws=300,
    )


def _comparison() -> stakes.Comparison:
    costs = 3 + np.sin(np.arange(40.0))
    costs_after = costs - 0.03 - 0.02 * np.cos(np.arange(40.0))
    both = {"VI": costs, "LCVI": costs_after}
    return stakes.Comparison(both, gain=False, setting="", held_out=True)


def _fits() -> dict[str, Fit]:
    bound = -100 - 50 * np.exp(-np.arange(1, 1001) / 100)
    reasons = {"VI": Stop.CONVERGED, "LCVI": Stop.STEP_LIMIT}
    return {
        method: Fit({"params": {}}, bound, np.zeros(1000), reason, 0, 2.5)
        for method, reason in reasons.items()
    }


def _scale(text: Callable[[str], str]) -> ScaleOfLosses:
    edges = np.linspace(0, 6, 11)
    return ScaleOfLosses(text("Linearized"), 5.0, 0.9, edges, np.arange(10, 0, -1), 3)


def hostile_labels() -> list[str]:
    """Fifty attempts to set `window.pwned`, to open a dialog, or to send a request."""
    found = list(_hostile())
    assert len(found) == len(set(found)) == 50
    return found


def _hostile() -> Iterator[str]:
    run = "window.pwned=1"
    yield f"<script>{run}</script>"
    yield f"</script><script>{run}</script>"
    yield f"</SCRIPT ><ScRiPt>{run}</sCrIpT>"
    yield f'"]}}</script><script>{run}</script>'
    yield f"<!--<script>{run}</script>"
    yield f"--><script>{run}</script><!--"
    yield f"]]><script>{run}</script>"
    yield f"<scr<script>ipt>{run}</scr</script>ipt>"
    yield f"<script type=module>{run}</script>"
    yield f'<script type="application/json" id="report-data">{run}</script>'
    yield '<script src="https://example.invalid/x.js"></script>'
    yield f"</title><script>{run}</script>"
    yield f"</style><script>{run}</script>"
    yield f"</textarea><script>{run}</script>"
    yield f"</noscript><script>{run}</script>"
    yield f"</code></pre><script>{run}</script>"
    yield f"<img src=x onerror={run}>"
    yield f'"><img src=x onerror={run}>'
    yield f"'><img src=x onerror='{run}'>"
    yield f"<svg onload={run}>"
    yield f"<svg/onload={run}//"
    yield f"<svg><script>{run}</script></svg>"
    yield f"<svg><animate onbegin={run} attributeName=x dur=1s>"
    yield f"<math><mtext></mtext><script>{run}</script></math>"
    yield f"<body onload={run}>"
    yield f"<details open ontoggle={run}>"
    yield f"<input autofocus onfocus={run}>"
    yield f"<video><source onerror={run}></video>"
    yield "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>"
    yield f'<iframe src="javascript:parent.{run}"></iframe>'
    yield f'<a href="javascript:{run}">x</a>'
    yield f'<meta http-equiv="refresh" content="0;url=javascript:{run}">'
    yield '<base href="https://example.invalid/">'
    yield '<link rel="stylesheet" href="https://example.invalid/x.css">'
    yield "<style>@import url(https://example.invalid/x.css);</style>"
    yield '<form action="https://example.invalid/"><button autofocus>x</button></form>'
    yield f'" onmouseover="{run}" x="'
    yield f"' autofocus onfocus='{run}' x='"
    yield f"`;{run};//"
    yield f"${{{run}}}"
    yield f'";{run};//'
    yield f'\\";{run};//'
    yield f"\u2028{run}\u2029"
    yield "{{ 7 * 7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}"
    yield "{{ cycler.__init__.__globals__.os.popen('id').read() }}"
    yield f"$$\\href{{javascript:{run}}}{{x}}$$"
    yield f"@{{x}}<script>{run}</script>"
    yield "__proto__"
    yield f"&lt;script&gt;{run}&lt;/script&gt;\x00\u202e"
    yield f"\ud800<script>alert(1);{run}</script>"
