"""The report's content and its page, without a browser."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from report_samples import hostile_labels, sample_report, small_fit

import stakes
from stakes import predicting
from stakes.demos import eight_schools
from stakes.predicting import Observations, SampledPosterior
from stakes.report import Report, Rows, Saving, render, summarise, write
from stakes.report.density import centres, levels, smoothed
from stakes.report.movement import movement
from stakes.report.predictions import LEVELS, decision_table, what_if
from stakes.report.rendering import number, percent, safe_json
from stakes.report.summary import verdict
from stakes.study import predictive_quantiles

ANALYST = ["analyst", "posterior", "convergence", "price", "provenance", "glossary"]
SECTIONS = ["answer", "model", "decisions", "what-if", "verdict", *ANALYST]


class Outline(HTMLParser):
    """Elements, attributes, and text, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def result() -> stakes.Calibration:
    return small_fit()


@pytest.fixture(scope="module")
def report(result: stakes.Calibration) -> Report:
    return summarise(
        result,
        title="Eight schools",
        provenance={"seed": "0"},
        command="stakes demo eight-schools",
        program="import stakes",
    )


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render(report)


def test_verdict_is_that_of_the_comparison(result: stakes.Calibration, report: Report) -> None:
    comparison = result.compare()
    assert report.verdict.sentence == comparison.verdict
    assert [risk.value for risk in report.verdict.risks] == list(comparison.risk.values())
    assert report.verdict.risks[1].interval == comparison.interval


def test_decision_table_holds_the_decisions_of_both_fits(
    result: stakes.Calibration, report: Report
) -> None:
    table = report.decisions
    assert table.labels == {"school": eight_schools.SCHOOLS}
    np.testing.assert_array_equal(table.calibrated, result.decisions.values)
    np.testing.assert_array_equal(table.vi, result.vi_decisions.values)
    np.testing.assert_allclose(table.observed, eight_schools.EFFECT)
    assert (table.low < table.calibrated).all()
    assert (table.calibrated < table.high).all()


def test_what_if_quantiles_surround_the_decision_of_the_fit(report: Report) -> None:
    found = report.what_if
    assert found is not None
    assert found.kind == "costs"
    assert [handle.value for handle in found.handles] == pytest.approx([0.2, 0.8])
    assert found.quantiles.shape == (8, len(LEVELS)) == (8, 41)
    width = found.quantiles[:, 30] - found.quantiles[:, 10]
    at_fit = np.array([np.interp(0.2, LEVELS, row) for row in found.quantiles])
    assert (np.abs(at_fit - report.decisions.calibrated) < 0.1 * width).all()


def test_posterior_section_shows_what_moved_most_first(
    result: stakes.Calibration, report: Report
) -> None:
    moved = report.movement
    assert moved.total == 10
    assert len(moved.marginals) == 6
    assert len(moved.pairs) == 3
    change = [
        (abs(m["LCVI"].mean - m["VI"].mean) + abs(m["LCVI"].sd - m["VI"].sd)) / m["VI"].sd
        for m in (marginal.moments for marginal in moved.marginals)
    ]
    assert change[0] > 0.9 * max(change)
    for marginal in moved.marginals:
        width = marginal.grid[1] - marginal.grid[0]
        for density in marginal.density.values():
            assert 0.97 < density.sum() * width < 1.01


def test_posterior_section_shows_nuts_where_it_was_run(result: stakes.Calibration) -> None:
    draws = {
        name: np.random.default_rng(0).normal(size=(50, *latent.shape))
        for name, latent in result.approximation.latents.items()
    }
    found = movement(result, SampledPosterior(draws))
    assert all(list(m.density) == ["VI", "LCVI", "NUTS"] for m in found.marginals)
    assert all("NUTS" in pair.correlation for pair in found.pairs)


def test_density_of_normal_draws_is_normal() -> None:
    draws = np.random.default_rng(1).normal(size=(4000, 1))
    grid = centres(-3.0, 3.0, 120)
    true = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    assert np.abs(smoothed(draws, [grid]) - true).max() < 0.03


def test_density_does_not_dip_at_a_bound() -> None:
    draws = np.random.default_rng(1).exponential(size=(4000, 2))
    grid = centres(0.0, 6.0, 120)
    alone = smoothed(draws[:, :1], [grid])
    assert alone[0] == pytest.approx(1.0, abs=0.15)
    assert alone[0] >= alone[10:].max()
    axis = centres(0.0, 6.0, 40)
    together = smoothed(draws, [axis, axis])
    assert together[0, 0] >= together[3:, 3:].max()


def test_density_of_a_heavy_tail_keeps_its_peak() -> None:
    draws = np.random.default_rng(0).lognormal(sigma=1.5, size=(4000, 1))
    grid = centres(*np.quantile(draws, (0.003, 0.997)), 120)
    mode = grid[smoothed(draws, [grid]).argmax()]
    assert mode < np.median(draws)


@pytest.mark.parametrize("values", [[2.0] * 4000, [2.0], [1.9, 2.1], 2 + 1e-9 * np.arange(50)])
def test_draws_that_hardly_vary_have_a_density(values: list[float]) -> None:
    grid = centres(1.5, 2.5, 120)
    density = smoothed(np.array(values)[:, None], [grid])
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.03)
    assert (density * grid).sum() / density.sum() == pytest.approx(2.0, abs=0.01)


def test_contour_levels_enclose_their_share() -> None:
    draws = np.random.default_rng(1).normal(size=(4000, 2))
    axis = centres(-4.0, 4.0, 40)
    density = smoothed(draws, [axis, axis])
    half, most = levels(density, (0.5, 0.9))
    assert density[density >= half].sum() / density.sum() == pytest.approx(0.5, abs=0.03)
    assert density[density >= most].sum() / density.sum() == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("y", [np.zeros(300), np.arange(300.0)], ids=["constant", "collinear"])
def test_pairs_without_a_spread_are_drawn(y: np.ndarray) -> None:
    report = sample_report(3)
    pair = replace(report.movement.pairs[0], points={"VI": np.stack([np.arange(300), y], axis=1)})
    page = render(replace(report, movement=replace(report.movement, pairs=(pair,))))
    assert "chart-pair-0" in page


def test_convergence_says_why_each_fit_stopped_and_where_m_lies(
    result: stakes.Calibration, report: Report
) -> None:
    vi, calibrated = report.convergence.traces
    assert (vi.reason, calibrated.reason) == (result.vi.reason, result.calibrated.reason)
    assert vi.steps[-1] == result.vi.steps
    assert len(vi.steps) <= 250
    scale = report.convergence.scale
    assert scale is not None
    assert scale.value == result.scale
    assert scale.counts.sum() + scale.beyond == 8
    assert 0.8 <= scale.share <= 1


def test_price_compares_the_elbos_and_counts_covered_outcomes(
    result: stakes.Calibration, report: Report
) -> None:
    tenth = len(result.vi.elbo) // 10
    assert report.price.elbo_vi == pytest.approx(result.vi.elbo[-tenth:].mean())
    assert [coverage.level for coverage in report.price.coverage] == [0.5, 0.9]
    for coverage in report.price.coverage:
        assert coverage.vi * 8 == pytest.approx(round(coverage.vi * 8))


@pytest.mark.slow
def test_held_out_data_judges_and_labels_name_the_rows(result: stakes.Calibration) -> None:
    held_out = {"sigma": [10.0, 12.0, 9.0], "effect": [3.0, 900.0, -5.0]}
    labels = {"name": [f"school {i}" for i in range(8)], "size": range(8)}
    cases = result.assess(held_out, new="school")
    report = summarise(result, title="Held out", held_out=cases, labels=labels)
    assert report.verdict.held_out
    assert report.price.held_out
    assert (report.verdict.instances, report.price.instances) == (3, 3)
    assert report.price.coverage[1].vi <= 2 / 3  # nobody predicts 900
    assert list(report.decisions.labels) == ["school", "name", "size"]
    assert report.decisions.labels["size"] == ("", "", "", *range(8))
    assert report.decisions.parts == ("held out",) * 3 + ("fit",) * 8
    assert report.answer.every == 3


def test_labels_of_the_wrong_length_are_an_error(result: stakes.Calibration) -> None:
    with pytest.raises(stakes.InputError, match="'name' has 2 values for 8 instances"):
        summarise(result, title="x", labels={"name": ["a", "b"]})


def test_losses_without_a_parameter_have_no_slider() -> None:
    assert what_if(stakes.Squared(), np.zeros((50, 3))) is None
    assert what_if(None, np.zeros((50, 3))) is None


def test_linex_slider_keeps_the_sign_of_c() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(50, 3)).astype(float)
    found = what_if(stakes.LinEx(-0.5), counts)
    assert found is not None
    assert [(handle.value, handle.span) for handle in found.handles] == [(-0.5, 3.0)]
    assert not found.whole_numbers  # the best decision about a count need not be one


def test_an_absolute_loss_has_two_costs_of_one() -> None:
    found = what_if(stakes.Absolute(), np.random.default_rng(0).normal(size=(50, 3)))
    assert found is not None
    assert (found.kind, [handle.value for handle in found.handles]) == ("costs", [1.0, 1.0])
    assert not found.whole_numbers


def test_many_instances_are_sampled_for_the_slider() -> None:
    found = what_if(stakes.Tilted(0.3), np.random.default_rng(0).normal(size=(50, 5000)))
    assert found is not None
    assert len(found.rows) == len(set(found.rows.tolist())) == 2000
    assert (np.diff(found.rows) > 0).all()


def test_a_utility_is_shown_as_a_gain() -> None:
    rows = {"VI": [1.0, 2.0, 3.0], "LCVI": [1.5, 3.0, 4.6]}
    costs = {name: -np.tile(gains, 20) for name, gains in rows.items()}  # enough for a claim
    found = verdict(stakes.Comparison(costs, gain=True, setting="", held_out=False))
    assert (found.quantity, found.tone) == ("gain", "better")
    assert [risk.value for risk in found.risks] == pytest.approx([2.0, 9.1 / 3])


def test_an_unconverged_fit_makes_the_verdict_unclear() -> None:
    costs = {"VI": np.array([1.0, 2.0, 3.0] * 4), "LCVI": np.array([0.5, 1.0, 1.4] * 4)}
    notes = ("VI: reached the step limit.", "LCVI: reached the step limit.")
    found = verdict(stakes.Comparison(costs, gain=False, setting="", held_out=False, notes=notes))
    assert found.tone == "unclear"
    (said,) = found.notes
    assert "Do not rely on the figures" in said
    assert "(Plain VI: reached the step limit; Calibrated: reached the step limit)" in said


def test_page_says_what_a_problem_does_not_have() -> None:
    report = sample_report(3, kind=None)
    page = render(replace(report, convergence=replace(report.convergence, scale=None)))
    assert "has no cost that this page could vary" in page
    assert "needs no scale M" in page


def test_quantiles_of_whole_numbers_are_whole_numbers() -> None:
    draws = np.random.default_rng(0).poisson(3.0, size=(101, 5)).astype(float)
    found = predictive_quantiles(draws, np.array([0.05, 0.33, 0.95]))
    assert (found == np.round(found)).all()
    assert (found == np.quantile(draws, [0.05, 0.33, 0.95], axis=0, method="inverted_cdf").T).all()


@pytest.mark.parametrize(("instances", "draws"), [(3, 4000), (100_000, 200)])
def test_fewer_draws_for_more_instances(
    result: stakes.Calibration, instances: int, draws: int
) -> None:
    cases = result.assess({"sigma": np.full(instances, 10.0)}, new="school")
    assert cases.predicted.shape == (draws, instances)


def test_masked_outcomes_are_not_shown(result: stakes.Calibration) -> None:
    cases = replace(result.on_fit)
    # Where the assessment keeps what it has found out.
    vars(cases)["observations"] = Observations(np.arange(8.0), np.arange(8) < 5, cases.predictor)
    table = decision_table([Rows("fit", cases)])
    assert np.isnan(table.observed[5:]).all()
    assert not np.isnan(table.observed[:5]).any()


def test_nothing_is_predicted_or_decided_twice(
    result: stakes.Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for name in ("predict", "decide", "observations"):
        answer = getattr(predicting, name)

        def counting(*args: Any, _name: str = name, _answer: Any = answer, **kwargs: Any) -> Any:
            asked.append(_name)
            return _answer(*args, **kwargs)

        monkeypatch.setattr(predicting, name, counting)
    summarise(replace(result), title="Nothing known yet")
    assert sorted(asked) == ["decide", "decide", "observations", "predict", "predict"]


def test_page_has_its_sections_with_headings_and_landmarks(page: str) -> None:
    outline = Outline(page)
    assert [section["id"] for section in outline.all("section")] == SECTIONS
    assert [link["href"] for link in outline.all("nav") + outline.all("a")[1:] if "href" in link]
    assert {tag for tag, _ in outline.tags} >= {"header", "nav", "main", "footer", "h1", "h2"}
    assert len(outline.all("h1")) == 1
    assert all(table_has_caption(part) for part in page.split("<table")[1:])
    assert outline.tags[0] == ("html", {"lang": "en"})


def test_page_opens_with_the_decisions_and_their_worth_where_ways_were_compared() -> None:
    page = render(sample_report(8, worth=True))
    outline = Outline(page)
    assert [section["id"] for section in outline.all("section")] == [
        *SECTIONS[:4],
        "analyst",
        "ways",
        "verdict",
        *ANALYST[1:],
    ]
    assert all(table_has_caption(part) for part in page.split("<table")[1:])
    text = "".join(outline.texts)
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    assert "loaves: 96 in all, for 8 rows of tomorrow.csv." in text
    assert "One too few costs 1.00 €, one too many 4.00 €, so decisions are what is enough" in text
    assert "enough in 20 % of cases, not the mean." in text
    assert "Better by: in per cent of the cost of plain VI; below zero it is worse." in text
    assert "On 40 outcomes left out of its fit, a decision cost 12.3 € on average." in text
    assert "That is 7.70 € better than deciding the same for all (95 % interval 5.00 to" in text
    assert "The 90 % ranges held 88 % of 40 outcomes that the fit had not seen" in text
    titles = [
        column["title"]
        for column in json.loads(embedded(page, "report-data"))["decisions"]["columns"]
    ]
    known = ["dish", "day", "Rows", "weekday", "sunshine"]
    assert titles == [*known, "Decision", "5 %", "95 %", "Expected cost, €", "Observed"]


@pytest.mark.parametrize(
    ("each", "low", "high", "said"),
    [
        (2.0, 1.0, 3.0, "That is 2.00 better than what is done today (95 % interval 1.00 to 3.00)"),
        (-2.0, -3.0, -1.0, "2.00 worse than what is done today (95 % interval 1.00 to 3.00)"),
        (0.5, -1.0, 2.0, "Against what is done today it is 0.500 better, which may be chance"),
        (-0.5, -2.0, 1.0, "it is 0.500 worse, which may be chance (95 % interval −2.00 to 1.00)"),
        (0.5, None, None, "it is 0.500 better, which may be chance."),
    ],
)
def test_words_on_what_a_decision_saves_follow_the_numbers(
    each: float, low: float | None, high: float | None, said: str
) -> None:
    assert said in Saving("what is done today", 9.0, each, low, high).sentence


@pytest.mark.parametrize(
    ("calibrated", "said"),
    [(-100.5, "so it fits the data worse"), (-99.5, "here it does not"), (-100.01, "can be told")],
)
def test_words_on_the_price_follow_the_numbers(calibrated: float, said: str) -> None:
    assert said in replace(sample_report(3).price, elbo_calibrated=calibrated).sentence


def table_has_caption(table: str) -> bool:
    return "<caption>" in table.split("</table>")[0]


def test_every_chart_has_a_place_and_a_text_alternative(page: str) -> None:
    outline = Outline(page)
    alternatives = {
        div["id"]: div["aria-label"] for div in outline.all("div") if div.get("role") == "img"
    }
    charts = json.loads(embedded(page, "chart-data"))
    assert {chart["target_id"] for chart in charts} == set(alternatives)
    assert all(svg["aria-label"] for svg in outline.all("svg") if svg.get("role") == "img")
    assert len(charts) == 1 + 1 + 6 + 3 + 2 + 1
    assert all(alternatives.values())


def test_page_asks_for_nothing_from_elsewhere(page: str) -> None:
    outline = Outline(page)
    assert not [tag for tag, attributes in outline.tags if "src" in attributes]
    assert all(
        (attributes["href"] or "").startswith(("#", "data:"))
        for _, attributes in outline.tags
        if "href" in attributes
    )
    policy = next(m["content"] for m in outline.all("meta") if "http-equiv" in m)
    assert policy is not None
    assert "default-src 'none'" in policy
    script_rule = re.search("script-src ([^;]*)", policy)
    assert script_rule is not None
    assert re.fullmatch(r"('sha256-[\w+/=]{44}' ?){2}", script_rule[1])


@pytest.mark.parametrize("label", hostile_labels(), ids=range(50))
def test_hostile_labels_add_no_element_and_no_attribute(
    label: str, harmless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.report.charts.charts", lambda report: [])  # slow to make
    # As long as the harmless ones: how many names a picture has room for depends on that.
    hostile = render(sample_report(3, text=lambda text: (label + text).ljust(30, "x"), worth=True))
    assert shape(hostile) == shape(harmless)


@pytest.fixture(scope="module")
def harmless() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stakes.report.charts.charts", lambda report: [])
        return render(sample_report(3, text=lambda text: "x" * 30 + text, worth=True))


def shape(page: str) -> list[tuple[str, list[str]]]:
    return [(tag, sorted(attributes)) for tag, attributes in Outline(page).tags]


def test_template_syntax_in_labels_is_only_text() -> None:
    page = render(sample_report(3, text=lambda text: "{{ 7 * 7 }}" + text))
    assert "{{ 7 * 7 }}Orders for Monday" in page
    assert "49Orders" not in page


def test_safe_json_survives_a_script_element_and_reads_back() -> None:
    value = {"<": ["</script>", "&amp;", "\u2028", "é", '"', "\\"], "n": [1, 2.5, None]}
    text = str(safe_json(value))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_safe_json_refuses_what_is_not_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        safe_json([float("nan")])


def test_table_data_has_null_for_unknown_outcomes_and_few_digits() -> None:
    data = json.loads(embedded(render(sample_report(8)), "report-data"))
    columns = {column["title"]: column for column in data["decisions"]["columns"]}
    assert columns["Observed"]["values"][0] is None
    assert columns["Calibrated"]["values"][0] == data["decisions"]["taken"][0] == 9.1584
    assert (columns["day"]["kind"], columns["day"]["values"]) == ("given", list(range(8)))


def embedded(page: str, name: str) -> str:
    found = re.search(f'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert found is not None
    return found[1]


def test_page_without_scripts_still_shows_rows_and_verdict() -> None:
    outline = Outline(render(sample_report(40)))
    text = "\n".join(outline.texts)
    assert "dish 14" in text
    assert "Calibration lowers the risk on held-out data by 0.97 %." in text


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(stakes.InputError, match=r"needs jinja2: pip install .*\[cli\]'"):
        render(sample_report(3))


def test_writing_replaces_the_page_or_leaves_it(tmp_path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    write(sample_report(3), target)
    assert target.read_text("utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(stakes.InputError, match="Cannot write the report"):
        write(sample_report(3), tmp_path / "missing" / "report.html")


def test_a_failed_write_leaves_the_older_page_alone(tmp_path, monkeypatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(stakes.InputError, match=r"Cannot write the report .*: the disk is full"):
        write(sample_report(3), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (-12.34567, "−12.35"),
        (1234567.8, "1,234,568"),
        (0.00012345, "0.0001234"),
        (3e-12, "3.000e−12"),
        (100.0, "100"),
        (float("nan"), "–"),
        (None, "–"),
    ],
)
def test_numbers_have_four_digits(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_percentages_have_a_true_minus() -> None:
    assert percent(-0.01234, 2) == "−1.23 %"
