"""Results kept on disk, and the tables made of them."""

from pathlib import Path

import pytest

from reproduce import matrix
from reproduce.results import Finding, PaperTable, Results, summary
from stakes import InputError


def test_results_are_there_again_when_they_are_opened_anew(tmp_path: Path) -> None:
    Results(tmp_path, {"seeds": 2})["a/0"] = {"risk": 1.5}
    again = Results(tmp_path, {"seeds": 2})
    assert again == {"a/0": {"risk": 1.5}}


def test_results_of_another_setting_are_not_mixed_in(tmp_path: Path) -> None:
    Results(tmp_path, {"data": "Last.fm"})["a"] = {}
    with pytest.raises(InputError, match=r"another setting \(data differ\).*--out"):
        Results(tmp_path, {"data": "retail"})


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_fitted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written.*--out"):
        Results(tmp_path / "file" / "losses", {})


def test_a_damaged_results_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    for damaged in ('{"setting": ', '{"setting": null, "rows": {}}', "[]"):
        (tmp_path / "results.json").write_text(damaged)
        with pytest.raises(InputError, match="move it away"):
            Results(tmp_path, {})
        assert (tmp_path / "results.json").read_text() == damaged


def test_settings_survive_json(tmp_path: Path) -> None:
    setting = {"effort": vars(matrix.Effort())}
    Results(tmp_path, setting)["a"] = {}
    assert list(Results(tmp_path, setting)) == ["a"]


def test_tables_line_up_and_go_into_markdown() -> None:
    table = PaperTable(
        "Risks", ["loss", "VI"], [["squared", "1.0"], ["tilted", "10.25"]], ["A note."]
    )
    assert "squared    1.0" in str(table)
    assert "| tilted | 10.25 |" in table.markdown()
    assert str(table).endswith("A note.")


def test_the_summary_has_every_finding_by_its_experiment_and_each_caveat_once() -> None:
    def table(what: str, *caveats: str) -> PaperTable:
        return PaperTable("", ["a"], [["b"]], ["A note."], [Finding(what, "1.0", "2.0")], caveats)

    found = summary({"losses": table("risk", "Short."), "quantiles": table("M", "Short.", "Odd.")})
    assert found.lines == [["losses", "risk", "1.0", "2.0"], ["quantiles", "M", "1.0", "2.0"]]
    assert found.caveats == ["Short.", "Odd."]
    assert "A note." not in str(found)
    assert str(found).endswith("Short.\nOdd.")


def test_columns_of_numbers_are_aligned_to_the_right_and_others_to_the_left() -> None:
    lines = [["a", "x", "1.0", ""], ["b", "long", "-10.0", "not reached"]]
    text = str(PaperTable("", ["name", "what", "risk", "at"], lines)).splitlines()
    assert text[2] == "name  what   risk           at"
    assert text[4] == "a     x       1.0"
    assert text[5] == "b     long  -10.0  not reached"
