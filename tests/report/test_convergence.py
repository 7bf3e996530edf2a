"""How fits went, and what calibration cost."""

from dataclasses import replace

import pytest
from report_samples import sample_report

import stakes
from stakes.report import Report, render


def test_convergence_says_why_each_fit_stopped_and_where_m_lies(
    result: stakes.Calibration, report: Report
) -> None:
    assert report.fits == {"VI": result.vi, "LCVI": result.calibrated}
    page = render(report)
    assert f"Plain VI: {result.vi.reason} after {result.vi.steps:,} steps" in page
    scale = report.scale
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


@pytest.mark.parametrize(
    ("calibrated", "said"),
    [(-100.5, "so it fits the data worse"), (-99.5, "here it does not"), (-100.01, "within noise")],
)
def test_words_on_the_price_follow_the_numbers(calibrated: float, said: str) -> None:
    assert said in replace(sample_report(3).price, elbo_calibrated=calibrated).sentence


def test_the_coverage_of_the_same_rows_is_told_once(result: stakes.Calibration) -> None:
    """By the table of ways, where there is one, and not by other draws in another table."""
    report = sample_report(3, worth=True)
    alone = stakes.report.summarise(result, title="t")
    both = stakes.report.summarise(result, title="t", choice=report.choice)
    assert alone.price is not None
    assert both.price is not None
    assert alone.price.coverage
    assert not both.price.coverage
