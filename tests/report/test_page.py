"""The report in a real Chromium: what a reader sees, and what a hostile label cannot do."""

import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_samples import (
    CHANCES,
    hostile_labels,
    report_on_actions,
    report_on_prices,
    sample_report,
    small_fit,
)

from stakes.report import Report, render, summarise

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


class Visit:
    """One page, and all that it complained about, asked for or popped up."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html.scripted", state="attached", timeout=60_000)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def cells(self, table: str, column: int) -> list[str]:
        rows = self.page.locator(f"{table} tbody tr")
        return [row.locator("th, td").nth(column).inner_text() for row in rows.all()]

    def slide(self, position: float, handle: int = 0) -> None:
        self.page.locator(f"#what-if-{handle}").evaluate(
            "(slider, to) => { slider.value = to; slider.dispatchEvent(new Event('input')); }",
            position,
        )


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Open]:
    visits: list[Visit] = []

    def open_report(report: Report | str, **options: Any) -> Visit:
        path = tmp_path / f"report{len(visits)}.html"
        path.write_text(report if isinstance(report, str) else render(report), "utf-8")
        visits.append(Visit(browser, path, **options))
        return visits[-1]

    yield open_report
    for one in visits:
        one.context.close()


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


@pytest.mark.slow
def test_report_of_a_fit_draws_its_charts_without_complaint_or_request(visit: Open) -> None:
    result = small_fit()
    seen = visit(summarise(result, title="Eight schools"))
    assert seen.complaints == []
    assert [url.split(":")[0] for url in seen.requests] == ["file"]
    charts = seen.page.locator(".chart[role=img] svg:visible")
    assert charts.count() == 15
    for i in range(charts.count()):
        box = charts.nth(i).bounding_box()
        assert box is not None
        assert box["width"] > 150
        assert box["height"] > 50
        assert charts.nth(i).locator("path, use").count() >= 3
    verdict = result.compare().verdict.replace("`", "").replace(" -", " −")
    assert seen.text("#verdict .verdict") == verdict


def test_slider_moves_decisions_and_expected_loss(visit: Open) -> None:
    seen = visit(sample_report(40))
    at_fit = seen.cells("#what-if-panel", 3)
    assert at_fit == seen.cells("#what-if-panel", 2)
    loss = number(seen.text("[data-out=best]"))
    # The outcome is standard normal around its centre; a unit short costs 1, one too many 4.
    assert loss == pytest.approx(1.400, rel=0.02)

    seen.slide(-1)  # a unit short costs a fifth
    assert seen.text('[data-value="0"]') == "0.2"
    # (under + over) times the density at the best decision, the quantile of 0.2 / 4.2
    assert number(seen.text("[data-out=best]")) == pytest.approx(0.4171, rel=0.04)

    seen.slide(math.log(4) / math.log(5))
    seen.slide(-math.log(4) / math.log(5), handle=1)  # now 4 and 1
    assert (seen.text('[data-value="0"]'), seen.text('[data-value="1"]')) == ("4", "1")
    assert number(seen.text("[data-out=best]")) == pytest.approx(1.400, rel=0.02)
    # 4·E(y-h)+ + E(h-y)+ at h = -0.8416
    assert number(seen.text("[data-out=kept]")) == pytest.approx(3.925, rel=0.02)
    moved = [number(cell) for cell in seen.cells("#what-if-panel", 4)]
    assert moved == pytest.approx([1.683] * 10, abs=0.03)

    seen.page.locator("[data-reset]").click()
    assert seen.cells("#what-if-panel", 3) == at_fit
    assert number(seen.text("[data-out=best]")) == loss
    assert seen.complaints == []


def test_slider_of_a_linex_loss_goes_by_factors(visit: Open) -> None:
    seen = visit(sample_report(12, kind="linex"))
    before = number(seen.text("[data-out=mean]"))
    # -(1/c) log E exp(-cy) lies c/2 below the mean of a standard normal; the loss is c²/2.
    assert number(seen.text("[data-out=best]")) == pytest.approx(0.5, rel=0.05)
    seen.slide(-math.log(2) / math.log(3))  # c = 0.5
    assert number(seen.text('[data-value="0"]')) == pytest.approx(0.5, rel=1e-3)
    assert number(seen.text("[data-out=mean]")) - before == pytest.approx(0.25, abs=0.03)
    assert number(seen.text("[data-out=best]")) == pytest.approx(0.125, rel=0.05)
    assert seen.complaints == []


@pytest.mark.slow
def test_sliders_of_costs_decide_again_about_each_action(visit: Open) -> None:
    seen = visit(report_on_actions(40))
    chance, worth = np.resize(CHANCES, 40), np.resize([10.0, 20.0, 40.0], 40)

    def least(call: tuple[float, float], times: float) -> np.ndarray:
        called = call[0] * (1 - chance) + call[1] * chance
        return np.stack([called, times * chance * worth])

    before = seen.cells("#what-if-panel", 2)
    assert seen.cells("#what-if-panel", 3) == before
    assert number(seen.text("[data-out=best]")) == pytest.approx(
        least((5, 5), 1).min(axis=0).mean(), rel=1e-3
    )
    assert seen.text("[data-out=change]") == "0"
    seen.slide(math.log(2) / math.log(5), handle=2)  # customers are worth twice as much
    costs = least((5, 5), 2)
    assert number(seen.text("[data-out=best]")) == pytest.approx(costs.min(axis=0).mean(), rel=1e-3)
    taken = [["call", "skip"][each] for each in costs.argmin(axis=0)]
    assert seen.cells("#what-if-panel", 3) == taken[:10]
    old = least((5, 5), 1).argmin(axis=0)
    assert seen.text("[data-out=change]") == str((costs.argmin(axis=0) != old).sum())
    kept = costs[old, np.arange(40)].mean()
    assert number(seen.text("[data-out=kept]")) == pytest.approx(kept, rel=1e-3)
    seen.slide(-1, handle=0)
    costs = least((1, 5), 2)
    assert seen.text("[data-out=mean]").startswith(f"{(costs.argmin(axis=0) == 0).sum()} × call")
    assert seen.complaints == []


@pytest.mark.slow
def test_actions_are_counted_by_class_with_their_net_benefit(visit: Open) -> None:
    seen = visit(report_on_actions(40))
    assert seen.cells("#actions > .scroll", 3) == ["20 (100)", "20 (55)"]
    assert seen.cells("#actions .charts .scroll", 1) == ["120", "60"]
    assert seen.cells("#actions .charts .scroll", 2) == ["100", "−20"]


@pytest.mark.slow
def test_a_curve_shows_each_group_and_warns_of_what_was_never_decided(visit: Open) -> None:
    seen = visit(report_on_prices(40))
    curves = seen.page.locator("#what-if .chart svg")
    assert [curves.nth(i).is_visible() for i in range(curves.count())] == [True, True]
    assert seen.cells("#what-if table", 1) == ["3", "5 (new)"]
    assert "1 of 2 decisions about price is outside those in the data, 2 to 4" in seen.text(
        "#what-if .note"
    )
    assert seen.page.locator(".sketch").count() == 0
    assert seen.complaints == []


def test_decisions_about_counts_stay_whole_numbers(visit: Open) -> None:
    seen = visit(sample_report(12, whole_numbers=True))
    seen.slide(0.9)
    change = [number(cell) for cell in seen.cells("#what-if-panel", 4)]
    assert change == [round(value) for value in change]
    assert max(change) >= 1


def test_search_and_sort_and_pages_work_from_the_keyboard(visit: Open) -> None:
    seen = visit(sample_report(40))
    page = seen.page
    assert "Rows 1 to 15 of 40" in seen.text("#decision-table [role=status]")
    page.locator("#decision-table [data-turn=last]").press("Enter")
    assert "Rows 31 to 40 of 40" in seen.text("#decision-table [role=status]")

    calibrated = page.locator("#decision-table th[data-column]").nth(3)
    calibrated.locator("button").press("Enter")
    assert calibrated.get_attribute("aria-sort") == "ascending"
    up = [number(cell) for cell in seen.cells("#decision-table", 3)]
    assert up == sorted(up)
    calibrated.locator("button").press("Enter")
    assert calibrated.get_attribute("aria-sort") == "descending"
    assert number(seen.cells("#decision-table", 3)[0]) == pytest.approx(25.16, abs=0.01)

    page.fill("#decision-search", "DISH 3")
    playwright.expect(page.locator("#decision-table tbody tr")).to_have_count(13)
    assert all("3" in label for label in seen.cells("#decision-table", 0))
    page.fill("#decision-search", "nothing like it")
    playwright.expect(page.locator("#decision-table tbody tr")).to_have_count(0)
    assert "No row matches" in seen.text("#decision-table [role=status]")


def test_the_decision_to_take_is_a_column_of_its_own(visit: Open) -> None:
    seen = visit(sample_report(40, worth=True))
    heading = seen.page.locator("#decision-table th[data-column]").nth(5)
    assert heading.inner_text() == "Decision"
    assert seen.cells("#decision-table", 5)[0] == "10.16"
    assert seen.page.locator("#decision-table .sketch .chosen").count() == 15


def test_unknown_outcomes_sort_last_both_ways(visit: Open) -> None:
    seen = visit(sample_report(14))
    button = seen.page.locator("#decision-table th[data-column]").nth(6).locator("button")
    for _ in range(2):
        button.click()
        assert seen.cells("#decision-table", 6)[-2:] == ["–", "–"]


def test_labels_sort_as_people_count(visit: Open) -> None:
    seen = visit(sample_report(12))
    seen.page.locator("#decision-table th[data-column] button").first.click()
    assert seen.cells("#decision-table", 0)[:3] == ["dish 0", "dish 1", "dish 2"]
    assert seen.cells("#decision-table", 0)[-1] == "dish 11"


def test_a_hundred_thousand_rows_stay_responsive(visit: Open) -> None:
    started = time.perf_counter()
    seen = visit(sample_report(100_000))
    assert time.perf_counter() - started < 30
    page = seen.page
    assert page.locator("#decision-table tbody tr").count() == 15
    assert page.evaluate("document.querySelectorAll('*').length") < 3000

    first = "document.querySelector('#decision-table tbody th').firstChild.textContent"

    def seconds(act: str, then: str) -> float:
        return page.evaluate(
            f"""() => new Promise((done, fail) => {{
              const started = performance.now();
              const passed = () => (performance.now() - started) / 1000;
              {act};
              const look = () => ({then}) ? done(passed())
                : passed() > 30 ? fail(new Error(`after {act}, ${{{first}}} stands first`))
                : requestAnimationFrame(look);
              look();
            }})"""
        )

    search = "document.querySelector('#decision-search')"
    headings = "document.querySelectorAll('#decision-table th[data-column] button')"
    type_it = f"{search}.value = 'dish 99999'; {search}.dispatchEvent(new Event('input'))"
    clear = f"{search}.value = ''; {search}.dispatchEvent(new Event('input'))"
    last = "document.querySelector('#decision-table [data-turn=last]').click()"
    by_label = f"{headings}[0].click(); {headings}[0].click()"
    times = {
        "search": seconds(type_it, f"{first} === 'dish 99999'"),
        "clear": seconds(clear, f"{first} === 'dish 0'"),
        "last page": seconds(last, f"{first} === 'dish 99990'"),
        "sort by number": seconds(f"{headings}[3].click()", f"{first} === 'dish 0'"),
        "sort by label, twice": seconds(by_label, f"{first} === 'dish 99999'"),
    }
    assert max(times.values()) < 3, times
    slider = "document.querySelector('#what-if-0')"
    slide = f"{slider}.value = 1; {slider}.dispatchEvent(new Event('input'))"
    value = "document.querySelector('[data-value]').textContent"
    assert seconds(slide, f"{value} === '5'") < 0.5
    assert "2,000 cases, drawn at random from the 100,000" in seen.text("#what-if .note")
    assert seen.complaints == []


def assert_harmless(seen: Visit) -> None:
    seen.page.locator("#decision-table th[data-column] button").first.click()
    seen.page.fill("#decision-search", "<")
    seen.slide(0.3)
    seen.page.keyboard.press("Tab")
    seen.page.wait_for_timeout(150)
    assert seen.page.evaluate("window.pwned") is None
    assert seen.dialogs == []
    assert [url.split(":")[0] for url in seen.requests] == ["file"]
    assert seen.complaints == []


def test_hostile_labels_in_every_text_field_do_not_execute(visit: Open) -> None:
    labels = hostile_labels()
    columns = {label: tuple(labels) for label in labels[:4]}
    for start in range(0, len(labels), 25):
        some = " ".join(labels[start : start + 25])
        seen = visit(
            sample_report(len(labels), text=lambda text, some=some: some + text, columns=columns)
        )
        assert_harmless(seen)
        for made in (report_on_actions, report_on_prices):
            other = visit(made(20, text=lambda text, some=some: some + text))
            assert other.page.evaluate("window.pwned") is None
            assert (other.dialogs, other.complaints) == ([], [])
        shown = seen.text("h1")
        assert "window.pwned=1" in shown or "example.invalid" in shown


@pytest.mark.slow
def test_each_hostile_label_alone_does_not_execute(visit: Open) -> None:
    for label in hostile_labels():
        seen = visit(sample_report(5, text=lambda text, label=label: label + text))
        assert_harmless(seen)
        seen.context.close()


def test_hostile_labels_would_execute_in_a_page_without_protection(browser: Any) -> None:
    page = browser.new_page()
    page.on("dialog", lambda dialog: dialog.dismiss())
    executed = 0
    for label in hostile_labels():
        page.goto("about:blank")
        page.set_content(f"<p>{label}</p>".encode("utf-8", "replace").decode())
        executed += page.evaluate("window.pwned") == 1
    page.close()
    assert executed >= 15


def test_policy_stops_a_script_that_found_its_way_in(visit: Open) -> None:
    page = render(sample_report(3))
    smuggled = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
    seen = visit(re.sub("<main", lambda found: smuggled + found[0], page, count=1))
    assert seen.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in text for text in seen.complaints)


def test_a_phone_shows_fewer_columns(visit: Open) -> None:
    report = sample_report(40, worth=True)
    seen = visit(report, viewport={"width": 360, "height": 740}, is_mobile=True)
    headings = seen.page.locator("#decision-table th[data-column]:visible").all_inner_texts()
    assert headings == ["dish", "Decision", "Expected cost, €", "Observed"]
    row = seen.page.locator("#decision-table tbody tr").first
    assert row.locator("th:visible, td:visible").count() == 4


CLIPPED = """() => [...document.querySelectorAll(".scroll, .verdict, figure, dl, p")]
  .filter((part) => part.offsetParent && part.scrollWidth > part.clientWidth + 1)
  .map((part) => part.textContent.trim().slice(0, 60))"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_clipped_on_a_desk_or_a_phone(visit: Open, width: int) -> None:
    seen = visit(sample_report(40, worth=True), viewport={"width": width, "height": 900})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(CLIPPED) == []


def test_a_table_with_many_columns_has_no_sketch_that_would_be_clipped(visit: Open) -> None:
    sample = sample_report(40, worth=True)
    inputs = {f"column {i}": tuple(f"words {i}" for _ in range(40)) for i in range(3)}
    crowded = replace(sample, decisions=replace(sample.decisions, inputs=inputs))
    for report, shown in ((crowded, False), (sample, True)):
        seen = visit(report, viewport={"width": 1280, "height": 900})
        assert seen.page.locator("#decision-table td.sketch").first.is_visible() == shown
        assert seen.page.evaluate(CLIPPED) == []


@pytest.mark.slow
def test_all_labels_of_a_row_stand_on_a_phone_and_dates_are_whole(visit: Open) -> None:
    """Five shops have the same date: without their names nobody knows what to decide where."""
    sample = sample_report(10, worth=True)
    labels = {
        "Tag": tuple(f"{1 + i // 5:02d}.03.2025" for i in range(10)),
        "Filiale": tuple(
            ["Köln, Dom", "Köln, Süd", "Fürth", "Ulm", "Bonn"][i % 5] for i in range(10)
        ),
    }
    report = replace(sample, decisions=replace(sample.decisions, labels=labels))
    seen = visit(report, viewport={"width": 390, "height": 844})
    for table in ("#answer table", "#decision-table", "#what-if .data"):
        first = seen.page.locator(f"{table} tbody tr").first.locator("th")
        assert first.first.inner_text() == "01.03.2025\nKöln, Dom"
        assert first.first.bounding_box()["height"] < 75  # two lines
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert seen.page.evaluate(CLIPPED) == []
    wide = visit(report, viewport={"width": 1280, "height": 900})
    assert wide.cells("#decision-table", 0)[0] == "01.03.2025"
    assert wide.cells("#decision-table", 1)[0] == "Köln, Dom"


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_the_answer_stands_on_the_first_screen(visit: Open, size: tuple[int, int]) -> None:
    viewport = dict(zip(("width", "height"), size, strict=True))
    page = visit(sample_report(4, worth=True), viewport=viewport).page
    why = ("One too few costs",) if size[0] > 1000 else ()
    for said in ("48 in all", "42.0", "How sure is that?", *why):
        box = page.get_by_text(said).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= size[1], said


def test_charts_follow_light_dark_and_print(visit: Open) -> None:
    seen = visit(sample_report(10), color_scheme="dark")

    def inks() -> list[str]:
        """Of names and of outcomes, drawn by Matplotlib and by the page."""
        ink = "(part) => getComputedStyle(part).fill"
        parts = ("#model .large text", "#what-if .chart text", "#model .large use")
        return [str(seen.page.locator(part).last.evaluate(ink)) for part in parts]

    dark = inks()
    seen.page.emulate_media(color_scheme="light")
    light = inks()
    assert all(one != other for one, other in zip(dark[:2], light[:2], strict=True))
    background = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(background) == "rgb(253, 253, 252)"
    seen.page.emulate_media(color_scheme="dark", media="print")
    assert seen.page.evaluate(background) == "rgb(255, 255, 255)"
    assert inks() == light
    seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details:not([open])").count() == 0


def test_nothing_is_cut_off_on_paper(visit: Open) -> None:
    seen = visit(sample_report(40, worth=True), viewport={"width": 703, "height": 1000})  # A4
    seen.page.emulate_media(media="print")
    seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    wide = """() => [...document.querySelectorAll("table, svg, pre, p")]
      .filter((part) => part.offsetParent && part.getBoundingClientRect().right > 704)
      .map((part) => part.textContent.trim().slice(0, 60))"""
    assert seen.page.evaluate(wide) == []
    assert seen.text("#decision-table [role=status]") == "Rows 1 to 15 of 40"
    assert (
        seen.page.locator("th button").first.evaluate(
            "button => getComputedStyle(button, '::after').display"
        )
        == "none"
    )
    assert not seen.page.locator("nav").is_visible()


def test_screen_readers_find_names_for_regions_and_controls(visit: Open) -> None:
    seen = visit(sample_report(40))
    for role, name in [
        ("navigation", "Sections"),
        ("main", None),
        ("region", "All decisions"),
        ("slider", "cost of a unit short"),
        ("slider", "cost of a unit too many"),
        ("searchbox", "Search labels"),
        ("columnheader", "Calibrated"),
        ("img", "Histogram of losses"),
        ("img", "sold: decisions, ranges and outcomes, row by row"),
    ]:
        assert seen.page.get_by_role(role, name=name).count() >= 1, (role, name)
    assert seen.page.locator("#what-if-1").get_attribute("aria-valuetext") == "4"


def test_rows_can_be_read_without_scripts(visit: Open, browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "still.html"
    path.write_text(render(sample_report(40)), "utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("#decision-table tbody tr").count() == 15
    assert not page.locator("#what-if-0").is_visible()
    assert page.locator(".overview.large svg").is_visible()
    assert page.locator("#posterior .chart svg").count() == 3
    shown = "[...document.querySelectorAll('.chart')].filter((chart) => chart.offsetParent)"
    assert page.evaluate(f"{shown}.every((chart) => chart.querySelector('path'))")
    context.close()
