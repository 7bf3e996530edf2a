"""What is odd about a spec, but stops no run."""

from pathlib import Path
from typing import Any

import pytest
from projects import formula_project

from stakes.app.spec import propose, read_job, spec_text
from stakes.errors import InputError

UNFILLED = "loss.newsvendor.under and loss.newsvendor.over"


@pytest.mark.parametrize(
    ("loss", "fields"),
    [
        ({"newsvendor": {"under": 1, "over": 1}}, UNFILLED),
        ({"newsvendor": {"under": 1, "over": 1}, "unit": "€"}, UNFILLED),
        ({"cost_table": {"costs": {"yes": [1, 0], "no": [0, 1]}}}, "loss.cost_table.costs"),
        ({"newsvendor": {"under": 3, "over": 1}}, None),
        ("squared", None),
    ],
)
def test_costs_that_nobody_has_filled_in_are_noted_by_field(
    loss: dict[str, Any], fields: str | None, tmp_path: Path
) -> None:
    said = read_job(formula_project(tmp_path, loss=loss)).notes
    assert [note.partition(":")[0] for note in said] == ([] if fields is None else [fields])


def test_too_few_steps_to_settle_are_told_before_they_are_taken(bakery: Path) -> None:
    few = read_job(bakery / "stakes.toml", changes=["fit.steps=4000"])
    assert any("fit.steps: 4,000 are too few" in note for note in few.notes)
    assert "5,400 or more" in "".join(few.notes)
    assert "fit.steps" not in "".join(read_job(bakery / "stakes.toml").notes)


def test_a_column_of_today_in_the_formula_is_told_and_a_wrong_one_refused(tmp_path: Path) -> None:
    lines = [f"{i % 7},{20 + i % 5},{20 + i * i % 13}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["day,ordered,loaves", *lines]) + "\n", "utf-8")
    text = spec_text(propose(tmp_path / "t.csv", "loaves"), tmp_path)
    spec = tmp_path / "stakes.toml"
    spec.write_text(text.replace("loaves ~ day", "loaves ~ day + ordered"), "utf-8")
    assert any("choose.today: the formula has 'ordered'" in note for note in read_job(spec).notes)
    spec.write_text(text.replace('today = "ordered"', 'today = "orderd"'), "utf-8")
    with pytest.raises(InputError, match=r"choose\.today: .* no column 'orderd'. Did you mean"):
        read_job(spec)
