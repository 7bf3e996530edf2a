"""One small fit, and the report about it."""

import pytest
from report_samples import small_fit

import stakes
from stakes.report import Origin, Report, summarise


@pytest.fixture(scope="session")
def result() -> stakes.Calibration:
    return small_fit()


@pytest.fixture(scope="session")
def report(result: stakes.Calibration) -> Report:
    origin = Origin({"seed": "0"}, command="stakes demo eight-schools", program="import stakes")
    return summarise(result, title="Eight schools", origin=origin)
