"""What a report says about a calibration."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import stakes
from examples import promises
from stakes import predicting
from stakes.report import Report, Rows, render, summarise
from stakes.report.content import verdict


def test_verdict_is_that_of_the_comparison(result: stakes.Calibration, report: Report) -> None:
    comparison = result.compare()
    assert report.verdict.sentence == comparison.verdict
    assert report.verdict.comparison is not None
    assert report.verdict.comparison.costs.keys() == comparison.costs.keys()
    for method, costs in comparison.costs.items():
        np.testing.assert_array_equal(report.verdict.comparison.costs[method], costs)


@pytest.mark.slow
def test_held_out_data_judges_and_labels_name_the_rows(result: stakes.Calibration) -> None:
    held_out = {"sigma": [10.0, 12.0, 9.0], "effect": [3.0, 900.0, -5.0]}
    labels = {"name": [f"school {i}" for i in range(8)], "size": range(8)}
    cases = result.assess(held_out, new="school")
    rows = [Rows("held out", cases), Rows("fit", result.on_fit, labels=labels)]
    report = summarise(result, title="Held out", held_out=cases, rows=rows)
    assert report.verdict.comparison.held_out
    assert report.price.held_out
    assert (report.verdict.comparison.cases, report.price.instances) == (3, 3)
    assert report.price.coverage[1].vi <= 2 / 3  # nobody predicts 900
    assert list(report.decisions.labels) == ["school", "name", "size"]
    assert report.decisions.labels["size"] == ("", "", "", *range(8))
    assert report.decisions.parts == ("held out",) * 3 + ("fit",) * 8
    assert report.answer.every == 3


def test_a_utility_is_shown_as_a_gain(report: Report) -> None:
    rows = {"VI": [1.0, 2.0, 3.0], "LCVI": [1.5, 3.0, 4.6]}
    costs = {name: -np.tile(gains, 20) for name, gains in rows.items()}  # enough for a claim
    found = verdict(stakes.Comparison(costs, gain=True, setting="", held_out=False))
    assert (found.gain, found.tone) == (True, "better")
    page = render(replace(report, verdict=found))
    assert "<td>2</td>" in page
    assert "<td>3.033</td>" in page


def test_an_unconverged_fit_makes_the_verdict_unclear() -> None:
    costs = {"VI": np.array([1.0, 2.0, 3.0] * 4), "LCVI": np.array([0.5, 1.0, 1.4] * 4)}
    notes = ("VI: reached the step limit.", "LCVI: reached the step limit.")
    found = verdict(stakes.Comparison(costs, gain=False, setting="", held_out=False, notes=notes))
    assert found.tone == "unclear"
    (said,) = found.notes
    assert "Do not rely on the figures" in said
    assert "(Plain VI: reached the step limit; Calibrated: reached the step limit)" in said


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
    # Plain VI has decided already, for M.
    assert sorted(asked) == ["decide", "observations", "predict", "predict"]


@pytest.mark.parametrize(("instances", "draws"), [(3, 2000), (100_000, 200)])
def test_fewer_draws_for_more_instances(
    result: stakes.Calibration, instances: int, draws: int
) -> None:
    cases = result.assess({"sigma": np.full(instances, 10.0)}, new="school")
    assert cases.drawn(cases.posteriors["LCVI"]).shape == (draws, instances)


@pytest.mark.slow
def test_decisions_about_a_parameter_have_a_report_without_a_comparison():
    result = promises.solve(jax.random.key(0), steps=200, progress=False)
    summary = summarise(result, title="Promises")
    assert "never observed" in summary.verdict.sentence
    assert summary.quality is None
    assert summary.verdict.comparison is None
    assert "Did calibration help?" in render(summary)
