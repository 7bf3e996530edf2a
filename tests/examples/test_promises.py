"""Promises are judged by effects, not by measurements."""

from examples import promises


def test_promises_are_judged_by_effects_that_were_not_measured():
    assert (promises.data()["measured"] != promises.effects()).all()
    assert promises.costs(promises.effects()).max() == 0
    assert promises.problem().about_latent
