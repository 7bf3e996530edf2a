"""Pictures for notebooks: what is drawn is what the result says."""

import sys
from collections.abc import Iterator

import jax
import matplotlib as mpl
import numpy as np
import pytest

import stakes
import stakes.plot
from stakes.demos import eight_schools

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(scope="module")
def result() -> stakes.Calibration:
    return stakes.calibrate(
        jax.random.key(0),
        eight_schools.problem(),
        eight_schools.data(),
        steps=200,
        coords={"school": eight_schools.SCHOOLS},
        progress=False,
    )


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


def test_decisions_stand_over_their_intervals(result):
    ax = stakes.plot.decisions(result)
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["Calibrated"][:, 1], result.decisions.values)
    np.testing.assert_allclose(drawn["Plain VI"][:, 1], result.vi_decisions.values)
    np.testing.assert_allclose(drawn["observed"][:, 1], eight_schools.EFFECT)
    wide, narrow = (each.get_segments() for each in ax.collections)
    ends = np.array(wide)[:, :, 1]
    central = result.on_fit.forecast(result.on_fit.posteriors["LCVI"]).central
    np.testing.assert_allclose(ends, central[:, [0, -1]], rtol=1e-6)
    assert (np.array(narrow)[:, 0, 1] > ends[:, 0]).all()
    assert [text.get_text() for text in ax.get_xticklabels()] == list(eight_schools.SCHOOLS)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("school", "effect")


def test_decisions_of_other_cases_have_no_outcomes(result):
    cases = result.assess({"sigma": np.full(3, 10.0)}, new="school")
    drawn = lines(stakes.plot.decisions(cases))
    np.testing.assert_allclose(drawn["Calibrated"][:, 1], cases.decisions.values)
    assert "observed" not in drawn


def test_the_expected_loss_is_least_at_the_decision(result):
    ax = stakes.plot.expected_loss(result, "C")
    drawn = lines(ax)
    x, y = drawn["expected, 90 % band"].T
    here = float(result.decisions.sel(school="C"))
    assert drawn["decision, Calibrated"][0, 0] == pytest.approx(here)
    assert abs(x[y.argmin()] - here) <= 1.5 * (x[1] - x[0])
    by_hand = result.expected([float(x[3])])["mean"].sel(school="C").values
    assert y[3] == pytest.approx(float(by_hand[0]), rel=1e-5)
    assert ax.get_ylabel() == "expected cost"
    assert len(ax.collections) == 1  # the band


def test_reductions_have_their_intervals(result):
    compared = result.compare()
    ax = stakes.plot.reduction(compared)
    zero, span, point = (line.get_xdata() for line in ax.get_lines())
    assert list(zero) == [0, 0]
    np.testing.assert_allclose(span, 100 * np.array(compared.interval))
    np.testing.assert_allclose(point, [100 * compared.reduction])
    again = stakes.plot.reduction(result)
    np.testing.assert_allclose(again.get_lines()[-1].get_xdata(), point)


def test_densities_of_prior_and_posteriors_are_theirs(result):
    ax = stakes.plot.posterior(result, "mu")
    drawn = lines(ax)
    assert list(drawn) == ["Prior", "Plain VI", "Calibrated"]
    for name, fit in (("Plain VI", result.vi), ("Calibrated", result.calibrated)):
        grid, density = drawn[name].T
        mean = (grid * density).sum() / density.sum()
        draws = result.posterior(fit, draws=4000)["mu"].values
        assert mean == pytest.approx(float(draws.mean()), abs=0.1 * float(draws.std()))
    grid, density = drawn["Prior"].T
    true = np.exp(-((grid / 5) ** 2) / 2) / 5 / np.sqrt(2 * np.pi)  # normal with mean 0 and sd 5
    np.testing.assert_allclose(density[10:-10], true[10:-10], atol=0.15 * true.max())


def test_the_prior_of_a_member_is_that_of_its_own(result):
    drawn = lines(stakes.plot.posterior(result, 0))
    assert "Prior" in drawn
    before = result.prior(draws=2000)
    assert before["theta"].dims == ("chain", "draw", "school")
    assert float(before["mu"].std()) == pytest.approx(5.0, rel=0.1)


def test_axes_that_are_given_are_drawn_on(result):
    _, (left, right) = plt.subplots(1, 2)
    assert stakes.plot.reduction(result, ax=left) is left
    assert stakes.plot.decisions(result, ax=right) is right
    assert plt.get_fignums() == [1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: stakes.plot.decisions(r.compare()), "what `calibrate"),
        (lambda r: stakes.plot.decisions(r, ax=3), "axes of Matplotlib"),
        (lambda r: stakes.plot.expected_loss(r, "Z"), "a number below 8, or a label"),
        (lambda r: stakes.plot.expected_loss(r, 8), "a number below 8"),
        (lambda r: stakes.plot.expected_loss(r, (0, 1)), "one number or label for each of"),
        (lambda r: stakes.plot.posterior(r, "nu"), "a number below 6, or one of"),
        (lambda r: stakes.plot.posterior(r, 6), "a number below 6"),
        (lambda r: stakes.plot.reduction(None), "what `result.compare"),
    ],
)
def test_mistakes_are_refused_by_name(result, call, said):
    with pytest.raises(stakes.InputError, match=said):
        call(result)


def test_without_matplotlib_the_extra_is_named(result, monkeypatch):
    monkeypatch.setattr("stakes.plot.missing", lambda *packages: packages)
    with pytest.raises(stakes.InputError, match=r"needs matplotlib: pip install .*\[plot\]'"):
        stakes.plot.reduction(result)


def test_importing_it_does_not_import_matplotlib():
    import subprocess

    code = "import sys, stakes.plot; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
