"""Whom to call, against a threshold that scikit-learn tunes."""

import jax
import numpy as np
import pytest

from stakes.demos import bank


def test_bank_does_not_know_how_long_the_call_will_last():
    assert not [name for name in bank.labels()["feature"] if "duration" in name]
    fitted, judged = bank.data(), bank.held_out()
    assert (len(fitted["bought"]), len(judged["bought"])) == (3000, 1000)
    np.testing.assert_allclose(fitted["features"].mean(axis=0), 0, atol=1e-9)


@pytest.mark.slow
def test_calls_cost_no_more_than_with_a_threshold_that_scikit_learn_tunes():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import TunedThresholdClassifierCV

    fitted, judged = bank.data(), bank.held_out()

    def costs(bought, called, earned):
        return np.where(called == 1, bank.CALL, bought * earned)

    with sklearn.config_context(enable_metadata_routing=True):
        saved = lambda *given, **more: -costs(*given, **more).sum()  # noqa: E731
        score = make_scorer(saved).set_score_request(earned=True)
        tuned = TunedThresholdClassifierCV(LogisticRegression(max_iter=2000), scoring=score)
        tuned.fit(fitted["features"], fitted["bought"], earned=fitted["earned"])
        theirs = tuned.predict(judged["features"])
    result = bank.solve(jax.random.key(0), progress=False)
    ours = result.decide(judged, new="customer", known=bank.KNOWN).values == "call"
    risks = [costs(judged["bought"], called, judged["earned"]).mean() for called in (ours, theirs)]
    assert risks[0] <= risks[1]
