"""The fits of a study, by guide, strategy and mask."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import AutoDiagonalNormal

import stakes
from stakes.errors import Interrupted
from stakes.fitting import History
from stakes.study import FileJournal, Journal, Study, Work

KEY = jax.random.key(0)


def model(x: Any, y: Any = None) -> None:
    level = numpyro.sample("level", dist.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(level + x, 1), obs=y)


class Kept(Journal):
    """A journal that lists what it is asked for, and has VI's decisions, all of them 100."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def history(self, title: str, start: History) -> History:
        self.titles.append(title)
        return start

    def watch(self, title: str, history: History) -> None:
        if title not in self.titles:
            self.titles.append(title)

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, 100.0)

    def keep_decisions(self, decisions: np.ndarray) -> None: ...


def test_a_journal_has_the_fits_of_the_own_guide_alone() -> None:
    """Those of another guide have the same titles, and maybe the same shapes."""
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    data = {"x": np.linspace(0, 1, 6), "y": np.arange(6.0)}
    for folds, titles in ((None, ["VI"]), (2, ["VI, 2 folds and all", "VI"])):
        journal = Kept()
        work = Work(progress=False, journal=journal)
        study = Study(KEY, problem, data, stakes.Options(steps=100), folds=folds, work=work)
        study.fits().plain(study.everything)
        assert journal.titles == titles
        np.testing.assert_array_equal(study.fits().reference().decisions, 100.0)
        other = study.fits(AutoDiagonalNormal)
        other.plain(study.everything)
        assert journal.titles == titles
        assert np.abs(other.reference().decisions).max() < 10


def test_the_own_guide_has_one_name_for_fits_and_strengths() -> None:
    """Strengths asked for by name of the guide are fitted with those of the problem's own."""
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared(), guide=AutoDiagonalNormal)
    data = {"x": np.linspace(0, 1, 6), "y": np.arange(6.0)}
    study = Study(KEY, problem, data, stakes.Options(steps=100), work=Work(progress=False))
    strategies = [stakes.Calibrated(strength=4), stakes.Calibrated(guide=AutoDiagonalNormal)]
    for strategy in strategies:
        strategy.check(study)
    assert list(study.strengths) == [None]
    assert [strength.factor for strength in study.strengths[None]] == [4.0, 1.0]
    assert study.fits(AutoDiagonalNormal) is study.fits()


def test_a_journal_resumes_fits_made_together_and_has_that_to_everything(tmp_path: Path) -> None:
    """Bit for bit, wherever it was cut off; and a later program reads the one fit alone."""
    problem = stakes.Problem(model, outcome="y", loss=stakes.Squared())
    data = {"x": np.linspace(0, 1, 6), "y": np.arange(6.0)}
    path, left = tmp_path / "journal", iter(range(3))

    def study(folds: int | None, **journal: Any) -> Study:
        work = Work(progress=False, journal=FileJournal(path, 0, **journal))
        return Study(KEY, problem, data, stakes.Options(steps=600), folds=folds, work=work)

    def ended() -> Interrupted | None:
        return Interrupted("enough", 0) if next(left, None) is None else None

    cut, whole = (
        study(2, interruption=ended),
        Study(KEY, problem, data, stakes.Options(steps=600), folds=2, work=Work(progress=False)),
    )
    with pytest.raises(Interrupted):
        cut.fits().plain(cut.everything)
    resumed = study(2)
    for own, other in zip(resumed.masks, whole.masks, strict=True):
        found, expected = resumed.fits().plain(own), whole.fits().plain(other)
        np.testing.assert_array_equal(found.elbo, expected.elbo)
        assert jax.tree.all(jax.tree.map(np.array_equal, found.params, expected.params))
    resumed.work.journal.finish()
    alone = study(None)
    again = alone.fits().plain(alone.everything)
    np.testing.assert_array_equal(again.elbo, found.elbo)
    assert jax.tree.all(jax.tree.map(np.array_equal, again.params, found.params))
