"""The page of a report, without a browser."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report_samples import hostile_labels, sample_report

import stakes
from stakes.report import Report, render, write
from stakes.report.rendering import number, page_percent, safe_json

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
def page(report: Report) -> str:
    return render(report)


@pytest.fixture(scope="module")
def harmless() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stakes.report.pictures.svg", lambda *_: "<svg></svg>")
        return render(sample_report(3, text=lambda text: "x" * 30 + text, worth=True))


def test_page_says_what_a_problem_does_not_have() -> None:
    report = sample_report(3, kind=None)
    page = render(replace(report, scale=None))
    assert "has no cost that this page could vary" in page
    assert "needs no scale M" in page


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
    assert "One too few costs 1.00 €, one too many 4.00 €, so each decision is the quantity" in text
    assert "suffices in 20 % of cases, not the mean." in text
    assert "Better by: in per cent of the cost of plain VI; below zero it is worse." in text
    assert "On 40 outcomes left out of its fit, a decision cost 12.3 € on average." in text
    assert "That is 7.70 € better than one decision for all (95 % interval 5.00 to" in text
    assert "The 90 % ranges held 88 % of 40 outcomes that the fit had not seen" in text
    titles = [
        column["title"]
        for column in json.loads(embedded(page, "report-data"))["decisions"]["columns"]
    ]
    known = ["dish", "day", "Rows", "weekday", "sunshine"]
    assert titles == [*known, "Decision", "5 %", "95 %", "Expected cost, €", "Observed"]


def table_has_caption(table: str) -> bool:
    return "<caption>" in table.split("</table>")[0]


def test_every_picture_has_a_caption_and_a_text_alternative(page: str) -> None:
    charts = [div for div in Outline(page).all("div") if div.get("role") == "img"]
    assert len(charts) == 2 + 1 + 1 + 6 + 3 + 2 + 1
    assert all(chart["aria-label"] for chart in charts)
    figures = re.findall("<figure.*?</figure>", page, re.DOTALL)
    assert len(figures) == len(charts)
    assert all(re.search(r"<figcaption>\S", figure) for figure in figures)
    empty = [figure for figure in figures if "<svg" not in figure]
    assert len(empty) == 1  # that of the what-if, which the page draws
    assert "against the cost of a unit short" in empty[0]


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
    assert re.fullmatch(r"('sha256-[\w+/=]{44}' ?){1}", script_rule[1])


@pytest.mark.parametrize("label", hostile_labels(), ids=range(50))
def test_hostile_labels_add_no_element_and_no_attribute(
    label: str, harmless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stakes.report.pictures.svg", lambda *_: "<svg></svg>")  # slow to make
    # As long as the harmless ones: how many names a picture has room for depends on that.
    hostile = render(sample_report(3, text=lambda text: (label + text).ljust(30, "x"), worth=True))
    assert shape(hostile) == shape(harmless)


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
    assert page_percent(-0.01234, 2) == "−1.23 %"
