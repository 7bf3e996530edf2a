"""The gallery: its pages run, and what they say of their figures holds."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import stakes

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs/gallery"
run = runpy.run_path(str(ROOT / "docs/gallery.py"))["executed"]


def text_of(page):
    return (GALLERY / f"{page}.md").read_text("utf-8")


def says_orders(namespace):
    problem, later = namespace["problem"], namespace["later"]
    orders = namespace["orders"]
    assert list(orders.index) == list(later.index)
    assert (orders == orders.round()).all()
    assert namespace["cost"](orders.to_numpy()) < namespace["cost"](namespace["week_ago"])
    assert problem.loss == stakes.Newsvendor(3.0, 1.0)


def says_groups(namespace):
    decided = namespace["result"].decide(namespace["new"])
    assert list(decided.index) == ["many homes", "two homes", "no home"]


def says_scikit_learn(namespace):
    means = {name: float(cost.mean()) for name, cost in namespace["means"].items()}
    assert means["decisions"] < means["means"]
    assert 0.08 < (namespace["y"] > namespace["decided"]).mean() < 0.27


def says_minibatches(namespace):
    result = namespace["result"]
    assert result.decisions.shape == (200, 20)
    assert result.compare(namespace["held_out"], known=("row", "column")).cases > 1500


def says_utility(namespace):
    rain = {"rain": [2.0, 4.0, 8.0]}
    drier, usual, wetter = namespace["result"].decide(rain, new="year").values
    assert drier < usual < wetter
    y, h = np.meshgrid(np.arange(5.0), np.arange(5.0))
    np.testing.assert_allclose(namespace["regret"](y, h), namespace["known"](y, h), atol=1e-5)


def says_five(namespace):
    """Decisions save something against the best of doing the same for all, or nearly so."""
    bank, calls = namespace["bank"], namespace["calls"]
    later = bank.held_out()
    called = calls.decide(later, new="customer", known=bank.KNOWN, fit=calls.vi).values == "call"
    costs = np.where(called, bank.CALL, later["bought"] * later["earned"])
    assert costs.mean() < 0.6 * min(bank.CALL, (later["bought"] * later["earned"]).mean())
    pricing, prices = namespace["pricing"], namespace["prices"]["region"].vi_decisions.values
    np.testing.assert_allclose(np.unique(prices.round(4)), np.sort(pricing.best_prices()), rtol=0.1)
    for name in ("calls", "homes", "days", "schools"):
        assert all(fit.converged for fit in namespace[name].fits.values())


def says_limits(namespace):
    paper, regret = (namespace["compared"][name] for name in ("paper", "regret"))
    assert paper.interval[1] < -0.05  # reliably worse, by more than five per cent
    assert regret.reduction > -0.03
    noise = {name: float(draws.mean()) for name, draws in namespace["rows"].items()}
    assert noise["paper"] < 0.85 < 0.9 < noise["regret"]
    for row in namespace["told"]:  # on about half of all data sets, as their own rows foretell
        assert 35 < row["risk raised in % of data sets"] < 80
        assert row["sign told by these outcomes, %"] > 80


def says_report(namespace):
    summary = namespace["summary"]
    assert "8 rows" in summary.answer.sentence
    assert summary.quality.outcomes == 8


PAGES = {
    "newsvendor": says_orders,
    "radon": says_groups,
    "scikit_learn": says_scikit_learn,
    "minibatches": says_minibatches,
    "five": says_five,
    "utility": says_utility,
    "migrating": lambda namespace: None,
    "limits": says_limits,
    "report": says_report,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_gallery_runs_and_says_what_came(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, namespace = run(text_of(page), page)
    assert found.count("```text") > 0
    PAGES[page](namespace)


def test_every_page_is_listed_and_every_program_can_be_read():
    pages = {path.stem for path in GALLERY.glob("*.md")} - {"index"}
    assert pages == set(PAGES)
    listed = re.findall(r"\((\w+)\.md\)", text_of("index"))
    assert set(listed) == pages
    for page in pages:
        for program in re.findall(r"```python\n(.*?)```", text_of(page), re.S):
            compile(program, page, "exec")


def test_a_program_shows_what_it_prints_its_last_value_and_its_figures():
    page = """\
```python
print("first")
x = 2
x + 1
```

Between.

```python
import matplotlib.pyplot as plt

plt.figure()
plt.ylabel("a < b")
```

```py
not run
```
"""
    found, namespace = run(page, "page")
    assert namespace["x"] == 2
    assert "```text\nfirst\n3\n```" in found
    assert found.index("Between.") < found.index('<img alt="Figure: a &lt; b" src="data:image/svg')
    assert found.count("```text") == 1


def test_a_mistake_in_a_page_is_told_with_its_line():
    with pytest.raises(ZeroDivisionError) as raised:
        run("# Page\n\n```python\nx = 1\nx / 0\n```\n", "page")
    assert raised.traceback[-1].lineno + 1 == 5


def test_the_api_page_has_every_public_name_once():
    listed = re.findall(r"^::: stakes\.(\w+)$", (ROOT / "docs/api.md").read_text(), re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) - {"protocols"} == set(stakes.__all__) - {"datasets", "plot"}
