"""The decision table of the report, and its columns."""

from dataclasses import replace

import numpy as np
import pytest
from report_samples import sample_report

import stakes
from stakes.demos import eight_schools
from stakes.predicting import Observations
from stakes.report import Report, Rows, render
from stakes.report.decision_table import columns, decision_table
from stakes.study import predictive_quantiles


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


def test_labels_of_the_wrong_length_are_an_error(result: stakes.Calibration) -> None:
    with pytest.raises(stakes.InputError, match="'name' has 2 values for 8 cases"):
        decision_table([Rows("fit", result.on_fit, labels={"name": ["a", "b"]})])


def test_masked_outcomes_are_not_shown(result: stakes.Calibration) -> None:
    cases = replace(result.on_fit)
    # Where the assessment keeps what it has found out.
    vars(cases)["observations"] = Observations(np.arange(8.0), np.arange(8) < 5, cases.predictor)
    table = decision_table([Rows("fit", cases)])
    assert np.isnan(table.observed[5:]).all()
    assert not np.isnan(table.observed[:5]).any()


def test_quantiles_of_whole_numbers_are_whole_numbers() -> None:
    draws = np.random.default_rng(0).poisson(3.0, size=(101, 5)).astype(float)
    found = predictive_quantiles(draws, np.array([0.05, 0.33, 0.95]))
    assert (found == np.round(found)).all()
    assert (found == np.quantile(draws, [0.05, 0.33, 0.95], axis=0, method="inverted_cdf").T).all()


def test_every_label_names_the_rows_and_is_not_repeated_among_the_inputs() -> None:
    report = sample_report(3, worth=True)
    labels = {"Datum": ("01.02.2025",) * 3, "Filiale": ("Bonn", "Ulm", "Jena")}
    inputs = {"Datum": ("2025-02-01",) * 3, "sunshine": (0.1, 0.2, 0.3)}
    named = replace(report.decisions, labels=labels, inputs=inputs)
    shown = columns(named, None)
    assert [c.title for c in shown if c.name in ("label", "input")] == [*labels, "sunshine"]
    # A phone has room for the first of them.
    assert ["wide" in c.style for c in shown if c.name == "label"] == [False, True]
    page = render(replace(report, decisions=named))
    first = page[page.index('id="answer"') :]
    assert all(f">{word}<" in first[: first.index("</table>")] for word in ("Datum", "Ulm"))
