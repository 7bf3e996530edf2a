"""The experiments' common parts; tests/paper runs the experiments themselves."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from typer.testing import CliRunner

from stakes import ClosedForm, InputError, Linearized, Quadrature
from stakes import expectation as expectations
from stakes.app.cli.app import app
from stakes.app.cli.reproduce import NAMES
from stakes.paper import EXPERIMENTS, Settings, losses, matrix
from stakes.paper.algorithms import settled
from stakes.paper.linearization import OneMinusUtility
from stakes.paper.study import Finding, PaperTable, Store, summary


def test_results_are_there_again_when_a_store_is_opened_anew(tmp_path: Path) -> None:
    Store(tmp_path, {"seeds": 2}).put("a/0", {"risk": 1.5})
    again = Store(tmp_path, {"seeds": 2})
    assert "a/0" in again
    assert "a/1" not in again
    assert again.rows["a/0"] == {"risk": 1.5}


def test_results_of_another_setting_are_not_mixed_in(tmp_path: Path) -> None:
    Store(tmp_path, {"data": "Last.fm"}).put("a", {})
    with pytest.raises(InputError, match=r"another setting \(data differ\).*--out"):
        Store(tmp_path, {"data": "retail"})


def test_results_of_another_file_of_the_same_name_are_not_mixed_in() -> None:
    y, test = np.array([[1.0, 5.0]]), np.array([[True, False]])
    digests = {
        matrix.Matrix("Last.fm", y * factor, test ^ flip, ["r"], ["a", "b"]).digest
        for factor in (1.0, 3.0)
        for flip in (True, False)
    }
    assert len(digests) == 4


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_fitted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written.*--out"):
        Store(tmp_path / "file" / "losses", {})


def test_a_damaged_results_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    for damaged in ('{"setting": ', '{"setting": null, "rows": {}}', "[]"):
        (tmp_path / "results.json").write_text(damaged)
        with pytest.raises(InputError, match="move it away"):
            Store(tmp_path, {})
        assert (tmp_path / "results.json").read_text() == damaged


def test_settings_survive_json(tmp_path: Path) -> None:
    setting = {"effort": vars(matrix.Effort())}
    Store(tmp_path, setting).put("a", {})
    assert json.loads((tmp_path / "results.json").read_text())["setting"] == setting


def test_the_fits_of_an_effort_have_its_draws() -> None:
    y, test = np.ones((6, 4)), np.tile([True, False], (6, 2))
    small = matrix.Matrix("", y, test, ["r"] * 6, ["c"] * 4)
    asked = matrix.problem(matrix.LOSSES["squared"])
    for effort in (losses.EFFORT, matrix.THOROUGH):
        found = matrix.plan(small, asked, Linearized(scale=1.0), effort, steps=10).settings
        assert (found.draws, found.independent) == (effort.draws, effort.independent)


def test_the_published_estimator_has_300_draws_each_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class PlannedError(Exception):
        pass

    def plan(*given: object, steps: int, **other: object) -> None:
        raise PlannedError(given[-1], other)

    monkeypatch.delenv("STAKES_DATA", raising=False)
    monkeypatch.setattr(losses, "_run_group", lambda *_: None)
    monkeypatch.setattr(matrix, "plan", plan)
    with pytest.raises(PlannedError) as found:
        losses.run(Settings(folder=tmp_path, as_published=True))
    effort, other = found.value.args
    assert effort.independent
    assert other["draws"] == 300


def test_without_last_fm_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAKES_DATA", raising=False)
    found = matrix.load(None, quick=False)
    assert found.y.shape == (1000, 100)
    assert "not Last.fm" in found.note
    assert 0.49 < found.test.mean() < 0.51


def test_a_path_that_holds_no_matrix_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{tmp_path}.*--data"):
        matrix.load(tmp_path, quick=True)


def test_the_risk_is_over_held_out_entries_alone() -> None:
    y, test = np.array([[1.0, 5.0]]), np.array([[True, False]])
    found = matrix.Matrix("", y, test, ["r"], ["a", "b"])
    assert found.risk(matrix.LOSSES["squared"], np.array([[3.0, 100.0]])) == pytest.approx(4.0)


def test_tables_line_up_and_go_into_markdown() -> None:
    table = PaperTable(
        "Risks", ["loss", "VI"], [["squared", "1.0"], ["tilted", "10.25"]], ["A note."]
    )
    assert "squared    1.0" in str(table)
    assert "| tilted | 10.25 |" in table.markdown()
    assert str(table).endswith("A note.")


def test_the_command_line_names_every_experiment() -> None:
    assert list(EXPERIMENTS) == list(NAMES)


def test_the_summary_has_every_finding_by_its_experiment_and_each_caveat_once() -> None:
    def table(what: str, *caveats: str) -> PaperTable:
        return PaperTable("", ["a"], [["b"]], ["A note."], [Finding(what, "1.0", "2.0")], caveats)

    found = summary({"losses": table("risk", "Short."), "quantiles": table("M", "Short.", "Odd.")})
    assert found.lines == [["losses", "risk", "1.0", "2.0"], ["quantiles", "M", "1.0", "2.0"]]
    assert found.caveats == ["Short.", "Odd."]
    assert "A note." not in str(found)
    assert str(found).endswith("Short.\nOdd.")


def test_a_risk_that_is_reached_and_left_again_is_not_reached_for_good() -> None:
    course = [[1.0, 0.3], [2.0, 0.5], [3.0, 0.4], [4.0, 0.3]]
    assert settled(course, 0.4) == 3.0
    assert settled(course, 0.2) is None
    assert settled(course[:2], 0.4) is None
    assert settled(course, 0.5) == 1.0


def test_an_interrupted_experiment_says_how_to_resume_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(settings: Settings) -> PaperTable:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "losses", interrupted)
    result = CliRunner().invoke(app, ["reproduce", "losses", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "the same command resumes from there" in result.stderr


def test_columns_of_numbers_are_aligned_to_the_right_and_others_to_the_left() -> None:
    lines = [["a", "x", "1.0", ""], ["b", "long", "-10.0", "not reached"]]
    text = str(PaperTable("", ["name", "what", "risk", "at"], lines)).splitlines()
    assert text[2] == "name  what   risk           at"
    assert text[4] == "a     x       1.0"
    assert text[5] == "b     long  -10.0  not reached"


@pytest.mark.slow
def test_one_minus_the_utility_has_the_expectation_that_quadrature_finds() -> None:
    outcome = dist.Normal(jnp.array([-2.0, 0.0, 0.3, 9.0]), jnp.array([0.1, 1.0, 3.0, 1.0]))
    decision, loss = jnp.array([-2.0, 0.5, 1.0, 0.0]), OneMinusUtility()
    chosen = expectations.choose(outcome, Linearized()(loss, 1.0), decision)
    assert chosen == ClosedForm()
    exact, numerical = (
        np.asarray(way.expected(None, outcome, loss, decision))
        for way in (chosen, Quadrature(points=400))
    )
    assert exact == pytest.approx(numerical, rel=1e-4)
