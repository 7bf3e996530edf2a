"""Every program in README and docs runs, and prints what the page says it prints."""

import doctest
import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import triples

import examples
import reproduce
import stakes

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"-?\d+\.?\d*")
END = "\f"
ONE_BY_ONE = f"""
import sys
scope = {{}}
for number, program in enumerate(sys.argv[1:]):
    exec(compile(program, f"program {{number}}", "exec"), scope)
    print({END!r}, end="")
"""


def programs(page):
    """(program, printed) pairs of a page."""
    return re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", (ROOT / page).read_text(), re.S
    )


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("README.md", 2),
        pytest.param("docs/decisions.md", 2, marks=pytest.mark.slow),
        ("docs/extending.md", 10),
    ],
)
def test_programs_print_what_their_page_says(page, count):
    """In a process of their own, which compiles what they run as a user's would."""
    found = programs(page)
    assert len(found) == count
    words = [sys.executable, "-W", "error", "-c", ONE_BY_ONE, *(program for program, _ in found)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=800)
    assert ran.returncode == 0, ran.stderr
    for printed, (_, expected) in zip(ran.stdout.split(END)[:-1], found, strict=True):
        assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", expected).split()
        came, said = ([float(x) for x in NUMBER.findall(text)] for text in (printed, expected))
        # Other processors round differently along thousands of steps; half a unit of a decision
        # and of a percentage point is far more than that, and far less than a mistake.
        assert came == pytest.approx(said, abs=0.5, rel=0.02)


def test_the_docs_front_page_is_the_readme_program():
    assert programs("docs/index.md")[0] == programs("README.md")[0]


def test_every_figure_of_the_docs_is_there():
    page = (ROOT / "docs/reproducing.md").read_text()
    shown = [ROOT / "docs" / name for name in re.findall(r"!\[.*?\]\((.*?)\)", page)]
    assert len(shown) >= 10
    assert [str(path) for path in shown if not path.exists()] == []


def test_the_tables_of_the_docs_are_those_that_were_reproduced():
    renew = runpy.run_path(str(ROOT / "docs/renew.py"))
    page = (ROOT / "docs/reproducing.md").read_text()
    assert len(renew["TABLE"].findall(page)) == 7
    assert renew["renewed"](page) == page


MODULES = sorted(
    module.name
    for package in (stakes, examples, reproduce)
    for module in pkgutil.walk_packages(package.__path__, prefix=f"{package.__name__}.")
)
LONG = {
    "stakes.study.calibration",
    "stakes.study.calibrating",
    "stakes.study.svi",
    "stakes.expectation.componentwise",
    "stakes.expectation.monte_carlo",
    "stakes.many",
    "stakes.plot",
    "stakes.sklearn",
    "stakes.study.choosing",
}
"""Modules whose examples take seconds, of things that have tests of their own."""
assert set(MODULES) >= LONG


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in MODULES],
)
def test_examples_in_docstrings_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_stand_under_a_heading(name):
    """Without one, the pages of the API show them as nested quotations."""
    source = Path(importlib.import_module(name).__file__).read_text()
    assert not re.search(r"\n\n *>>> ", source)


def test_every_public_function_and_class_has_an_example():
    public = set(stakes.__all__) - {"datasets", "plot"}
    shown = {name for name in public if ">>>" in (getattr(stakes, name).__doc__ or "")}
    results_and_errors = {name for name in public if name.endswith(("Error", "Warning"))} | {
        "Calibration",
        "Choice",
        "Comparison",
        "Fit",
        "Stop",
    }
    assert public - results_and_errors - shown == set()


@pytest.mark.slow
def test_the_page_of_all_triples_is_that_of_the_catalogue():
    assert triples.PAGE.read_text() == triples.page()


@pytest.mark.parametrize("outcome", ["Normal", "Poisson", "two normals"])
def test_rows_of_that_page_are_up_to_date(outcome):
    cells = [triples.expected_by(outcome, loss) for loss in triples.LOSSES]
    assert f"| {outcome} | {' | '.join(cells)} |" in triples.PAGE.read_text()
