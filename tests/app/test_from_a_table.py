"""From a table of the user to decisions, without a line of Python."""

import io
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from messy import messy_rows, write_messy
from projects import invoke

from stakes.app.runs import reporting
from stakes.app.runs.packing import packed, unpacked
from stakes.app.runs.reporting import read_asked
from stakes.app.spec import RowReader, findings_text, propose, read_job, spec_text
from stakes.app.spec.proposing import dispersion
from stakes.errors import InputError, StakesWarning


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table as a German Excel saves it, and what `init` says of it."""
    found = tmp_path_factory.mktemp("bakery")
    write_messy(found / "brote.csv", messy_rows())
    result = invoke("init", found, "--table", found / "brote.csv", "--outcome", "Anzahl Brote")
    assert result.exit_code == 0, result.output
    (found / "said.txt").write_text(result.stderr, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def decided(folder: Path) -> Path:
    """A short run of the spec as it is."""
    few = ("--set", "fit.steps=60", "--set", "loss.newsvendor.under=3")
    result = invoke(
        "run", folder / "stakes.toml", "-o", folder / "run", "--no-choose", "--no-report", *few
    )
    assert result.exit_code in (0, 4), result.output
    assert "rows 7, 12, 40 and 333 left out" in result.stderr
    return folder / "run"


def test_init_tells_each_defect_with_row_and_column(folder: Path) -> None:
    said = (folder / "said.txt").read_text(encoding="utf-8")
    for told in (
        "column 'Preis': 398 of 400 values are numbers; rows 12 and 40 say 'n/a'",
        "column 'Preis': '€3,26' and the like are read as numbers, here 3.26",
        "column 'sunshine': has no value in rows 7 and 333",
        "'Bonn ' (1 time, first in row 100) differ by spaces alone",
    ):
        assert told in said
    assert said.count("note: ") == 4


def test_the_spec_of_a_table_has_a_formula_and_splits_forward_in_time(folder: Path) -> None:
    spec = tomllib.loads((folder / "stakes.toml").read_text(encoding="utf-8"))
    assert spec["model"] == {
        "formula": "Anzahl_Brote ~ C(date_weekday) + date_days + (1 | Filiale) + sunshine + Preis",
        "family": "poisson",
    }
    assert spec["data"]["held_out"] == {"fraction": 0.2, "pick": "last"}
    assert spec["choose"]["folds"] == {"forward": {"blocks": 5}}
    job = read_job(folder / "stakes.toml")
    assert (job.rows_in(job.fit), job.rows_in(job.held_out)) == (317, 79)
    assert max(job.fit.arguments["date"]) < min(job.held_out.arguments["date"])
    np.testing.assert_allclose(job.fit.arguments["Preis"][0], 3.26)


def test_a_run_remembers_how_its_table_is_written(folder: Path) -> None:
    """Its decisions.csv is written in the same way, though the table may have gone."""
    tables = read_job(folder / "stakes.toml").tables
    assert tables.dialect.unusual == "semicolons between values, decimal commas, cp1252"
    assert unpacked(packed(tables)).dialect == tables.dialect


def test_labels_are_in_the_words_that_are_meant(folder: Path, tmp_path: Path) -> None:
    """In the rows of the fit, and in new ones; row 100 says 'Bonn ' with a space."""
    job = read_job(folder / "stakes.toml")
    assert job.spec.data is not None
    assert job.spec.data.replace["Filiale"] == {"Bonn ": "Bonn"}
    assert "20.01.2024, Bonn" in job.fit.names
    assert set(job.fit.labels[:, 1]) == {"Köln, Dom", "Köln, Süd", "Ulm", "Fürth", "Bonn"}
    header, *rows = messy_rows()
    write_messy(tmp_path / "new.csv", [header, rows[99]])
    (part,) = RowReader(job, tmp_path / "new.csv").parts(10)
    assert part.names == ["20.01.2024, Bonn"]
    assert list(part.table["Filiale"]) == ["Bonn "]  # as it is handed over


def test_a_report_leaves_out_rows_that_lack_a_value(folder: Path, tmp_path: Path) -> None:
    job, table = read_job(folder / "stakes.toml"), tmp_path / "new.csv"
    header, *rows = [row[:-1] for row in messy_rows(8)]  # row 7 has no sunshine
    write_messy(table, [header, *rows])
    with pytest.warns(
        StakesWarning, match="no decision for row 7: a value that the model needs is missing"
    ):
        asked = read_asked(job, table)
    assert asked.where == "new.csv, without 1 row that lacks a value"
    kept = [row for row in rows if row[2]]
    assert asked.names == [f"{row[0]}, {row[1]}" for row in kept]
    assert list(asked.labels["Filiale"]) == [row[1] for row in kept]
    sun = [float(row[2].replace(",", ".")) for row in kept]
    np.testing.assert_allclose(asked.arguments["sunshine"], sun)
    write_messy(table, [header, rows[6]])
    with pytest.raises(InputError, match="missing in row 1"):
        read_asked(job, table)


def test_a_report_says_where_it_ends_in_a_long_table(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, table = read_job(folder / "stakes.toml"), tmp_path / "new.csv"
    header, *rows = [row[:-1] for row in messy_rows(8)]
    write_messy(table, [header, *rows[:6]])
    monkeypatch.setattr(reporting, "MOST_ROWS", 6)
    assert not any("more than" in doubt for doubt in read_asked(job, table).doubts)
    monkeypatch.setattr(reporting, "MOST_ROWS", 5)
    with pytest.warns(StakesWarning, match=r"more than 5 rows. The page is about the first 5"):
        asked = read_asked(job, table)
    assert len(asked.kept) == 5
    assert any("more than 5 rows" in doubt for doubt in asked.doubts)


@pytest.mark.slow
@pytest.mark.filterwarnings("always::stakes.errors.StakesWarning")
def test_decisions_for_a_new_table_need_no_python(decided: Path, folder: Path) -> None:
    """A new shop is drawn, a gap gets no decision, and sunshine of 5 for 0.5 is noticed."""
    rows = messy_rows(4, seed=1)
    for at, (town, sun) in enumerate([("Bonn", "0,5"), ("Jena", "0,5"), ("Ulm", ""), ("Ulm", "5")]):
        rows[at + 1][:3] = ["20.03.2024", town, sun]
    write_messy(folder / "new.csv", [row[:-1] for row in rows])
    out = folder / "out.csv"
    result = invoke("decide", decided, folder / "new.csv", "-o", out)
    assert result.exit_code == 0, result.output
    assert "column 'sunshine': has no value in row 3" in result.stderr
    assert "3 decisions for 4 rows by calibrated, fitted to all 396 rows, in " in result.stderr
    assert "row 4 of column 'sunshine' lies far outside" in result.stderr
    found = pd.read_csv(out, sep=";", decimal=",", encoding="cp1252")
    assert found.columns.tolist() == [
        *("date", "Filiale", "sunshine", "Preis", "open", "note"),
        *("decision", "predicted_low", "predicted_high", "expected_cost"),
    ]
    assert f"{out} (as the table: semicolons between values, decimal commas" in result.stderr
    own = pd.read_csv(decided / "decisions.csv", sep=";", decimal=",", encoding="cp1252")
    assert set(own["Filiale"]) == {"Köln, Dom", "Köln, Süd", "Ulm", "Fürth", "Bonn"}
    assert own["predicted_high"].dtype.kind == "i"  # counts, and no words
    assert found["expected_cost"].dtype.kind == "f"
    assert found["Filiale"].tolist() == ["Bonn", "Jena", "Ulm", "Ulm"]
    assert found["decision"].isna().tolist() == [False, False, True, False]
    width = found["predicted_high"] - found["predicted_low"]
    assert width[1] > width[0]  # nothing is known of the new shop
    result = invoke("report", decided, "--for", folder / "new.csv")
    assert result.exit_code == 0, result.output
    assert "new.csv: no decision for row 3, for want of a value" in result.stderr
    page = (decided / "report.html").read_text("utf-8")
    assert "for 3 rows of new.csv, without 1 row that lacks a value." in page


@pytest.mark.slow
def test_other_costs_are_tried_without_another_run(decided: Path, folder: Path) -> None:
    table = folder / "again.csv"
    write_messy(table, [row[:-1] for row in messy_rows(6)])
    found = {}
    for under in (1, 3, 20):
        tried = ("--way", "plain VI", "--set", f"loss.newsvendor.under={under}")
        result = invoke("decide", decided, table, "-o", "-", *tried)
        assert result.exit_code == 0, result.output
        found[under] = pd.read_csv(io.StringIO(result.stdout), sep=";", decimal=",")
    assert (found[20]["decision"] > found[3]["decision"]).all()
    assert (found[3]["decision"] > found[1]["decision"]).all()
    own = invoke("decide", decided, table, "-o", "-", "--way", "plain VI")
    pd.testing.assert_frame_equal(
        pd.read_csv(io.StringIO(own.stdout), sep=";", decimal=","), found[3]
    )
    refused = invoke("decide", decided, table, "-o", "-", "--set", "fit.steps=9")
    assert "`--set fit.steps=9`: that went into the fits" in refused.stderr


@pytest.mark.slow
def test_a_project_that_has_moved_is_found(finished: Path, project: Path, tmp_path: Path) -> None:
    moved, run, table = tmp_path / "moved", tmp_path / "run", tmp_path / "new.csv"
    moved.mkdir()
    shutil.copytree(finished, run)
    shutil.copy(project / "model.py", moved)
    table.write_text("kind,name,x\noak,a,0.5\n")
    model = project / "model.py"
    model.rename(project / "away.py")
    try:
        assert invoke("decide", run, table, "-o", "-").exit_code == 2
        for where in (moved, moved / "model.py"):
            result = invoke("decide", run, table, "-o", "-", "--model", where)
            assert result.exit_code == 0, result.output
        assert (
            "calls it 'model.py'"
            in invoke("decide", run, table, "-o", "-", "--model", table).stderr
        )
        (moved / "model.py").write_text((moved / "model.py").read_text() + "\n# a remark\n")
        changed = invoke("decide", run, table, "-o", "-", "--model", moved)
        assert "has changed since the run" in changed.stderr
    finally:
        (project / "away.py").rename(model)


TABLES = {
    "counts": (
        "x,y\n" + "".join(f"{i % 7},{i**3 % 97}\n" for i in range(60)),
        "negative binomial",
    ),
    "yes or no": ("x,y\n" + "".join(f"{i * 7 % 5},{i % 2}\n" for i in range(60)), "bernoulli"),
    "amounts": ("x,y\n" + "".join(f"{i * 7 % 5},{1.3**i}\n" for i in range(30)), "gamma"),
    "numbers": ("x,y\n" + "".join(f"{i * 7 % 5},{i - 9.5}\n" for i in range(30)), "normal"),
    "odd names": ("x,y,2nd try (€),for\n1,2.5,3,a\n2,3.5,1,b\n1,0.5,2,a\n", "normal"),
    "two ways": ("day,y\n01/02/2025,2.5\n03/04/2025,1.5\n05/06/2025,3.5\n", "normal"),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_spec_of_any_table_can_be_read(name: str, tmp_path: Path) -> None:
    content, family = TABLES[name]
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    proposal = propose(tmp_path / "t.csv", "y")
    assert proposal.family[0] == family
    (tmp_path / "spec.toml").write_text(spec_text(proposal, tmp_path), encoding="utf-8")
    job = read_job(tmp_path / "spec.toml")
    assert job.problem.outcome == "y"


def test_columns_that_tell_the_same_and_codes_are_seen(tmp_path: Path) -> None:
    """Postcodes go with shops, as numbers or words; the size of a shop may tell of other shops."""
    shops = [("Dresden", "01067", 80), ("Köln", "50667", 120), ("Ulm", "89073", 95)]
    shops += [("Fürth", "90762", 60), ("Bonn", "53111", 150)]
    kinds = {"as words": shops, "as numbers": [(n, p.replace("01", "11"), s) for n, p, s in shops]}
    for name, those in kinds.items():
        lines = [
            f"{day:02d}.03.2025;{shop};{code};{size};{'ja' if day % 4 else ''};{day * size % 17}"
            for day in range(1, 13)
            for shop, code, size in those
        ]
        lines.append(lines[-1])  # a row that is there twice leaves labels as they are
        table = tmp_path / f"{name}.csv"
        table.write_text("\n".join(["Tag;Filiale;PLZ;Fläche;Fest;Brote", *lines]) + "\n", "utf-8")
        found = propose(table, "Brote")
        assert found.formula == "Brote ~ Tag_days + (1 | Filiale) + Fläche"
        assert found.left_out["PLZ"] == "it goes with Filiale, one to one"
        assert found.label == ("Tag", "Filiale")
    lines = [f"{i % 9};{7 * i % 5:03d};{i % 4}" for i in range(40)]
    (tmp_path / "codes.csv").write_text("\n".join(["y;code;x", *lines]) + "\n", "utf-8")
    found = propose(tmp_path / "codes.csv", "y")
    assert found.formula == "y ~ (1 | code) + x"
    assert 'categories = ["code"]' in spec_text(found, tmp_path)
    assert "begin with a zero. Here they are read as codes." in "".join(findings_text(found))
    (tmp_path / "spec.toml").write_text(spec_text(found, tmp_path), encoding="utf-8")
    assert read_job(tmp_path / "spec.toml").fit.arguments["code"][1] == "002"


def test_what_the_weekday_tells_is_proposed_once(tmp_path: Path) -> None:
    """Of a weekday in words, the weekend, and the weekday of the date itself; a holiday is more."""
    start, words = np.datetime64("2025-03-03"), ["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"]
    lines = [
        f"{start + day};{words[day % 7]};{day % 7 + 1};{'ja' if day % 7 > 4 else 'nein'};"
        f"{'ja' if day == 9 else 'nein'};{shop};{day * (day + len(shop)) % 17}"
        for day in range(28)
        for shop in ("Ost", "Markt")
    ]
    head = "Tag;Wochentag;Nummer;Wochenende;Feiertag;Filiale;Brote"
    (tmp_path / "t.csv").write_text("\n".join([head, *lines]) + "\n", "utf-8")
    found = propose(tmp_path / "t.csv", "Brote")
    assert found.formula == "Brote ~ C(Tag_weekday) + Tag_days + Feiertag + Filiale"
    assert list(found.left_out) == ["Wochentag", "Nummer", "Wochenende"]
    assert "which Tag already gives" in found.left_out["Wochentag"]
    assert found.label == ("Tag", "Filiale")
    few = [head, *lines[:20]]  # ten days: too few to learn of weekdays from dates
    (tmp_path / "few.csv").write_text("\n".join(few) + "\n", "utf-8")
    assert "Wochentag" not in propose(tmp_path / "few.csv", "Brote").left_out


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("ordered", None, "ordered"),
        ("Bestellt", None, "Bestellt"),
        ("plan", None, None),
        ("plan",) * 3,
    ],
)
def test_what_is_ordered_today_is_no_predictor(
    name: str, asked: str | None, found: str | None, tmp_path: Path
) -> None:
    """It is not known of the rows to decide about."""
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.2f},{rng.poisson(22)},{rng.poisson(20)}" for _ in range(80)]
    (tmp_path / "t.csv").write_text("\n".join([f"sun,{name},loaves", *lines]) + "\n", "utf-8")
    proposal = propose(tmp_path / "t.csv", "loaves", asked)
    assert proposal.today == found
    assert proposal.formula == ("loaves ~ sun" if found else f"loaves ~ sun + {name}")
    (tmp_path / "stakes.toml").write_text(spec_text(proposal, tmp_path), "utf-8")
    job = read_job(tmp_path / "stakes.toml")
    assert job.spec.choose.today == found
    assert not any("choose.today" in note for note in job.notes)
    with pytest.raises(InputError, match=r"`--today lovaes` must be .* Did you mean"):
        propose(tmp_path / "t.csv", "sun", "lovaes")


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


@pytest.mark.parametrize(
    ("outcome", "warned"), [("Verkaufte Brote", True), ("units sold", True), ("Nachfrage", False)]
)
def test_sales_are_told_from_demand(outcome: str, warned: bool, tmp_path: Path) -> None:
    lines = [f"{i % 7};{i * i % 13}" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join([f"x;{outcome}", *lines]) + "\n", "utf-8")
    text = spec_text(propose(tmp_path / "t.csv", outcome), tmp_path)
    assert ("Sold is not demand" in text) == warned


def test_too_few_steps_to_settle_are_told_before_they_are_taken(folder: Path) -> None:
    few = read_job(folder / "stakes.toml", changes=["fit.steps=4000"])
    assert any("fit.steps: 4,000 are too few" in note for note in few.notes)
    assert "5,400 or more" in "".join(few.notes)
    assert "fit.steps" not in "".join(read_job(folder / "stakes.toml").notes)


def test_counts_that_vary_more_than_by_chance_are_told() -> None:
    """Against variance over mean where nothing else is known."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 500)
    mean = np.array([2.0, 5.0, 20.0, 80.0])[groups]
    poisson, wide = rng.poisson(mean), rng.poisson(mean * rng.gamma(5, 1 / 5, len(mean)))
    design = np.eye(4)[groups]
    assert dispersion(design, poisson.astype(float)) == pytest.approx(1, abs=0.1)
    pooled = np.mean([wide[groups == g].var(ddof=1) / wide[groups == g].mean() for g in range(4)])
    assert dispersion(design, wide.astype(float)) == pytest.approx(pooled, rel=0.05)


@pytest.mark.parametrize(
    ("content", "outcome", "told"),
    [
        ("x,y\n1,2\n", None, "say which column to decide about with `--outcome`"),
        ("x,y\n1,2\n", "z", "there is no 'z'"),
        ("x,y\na,1\nb,2\n", "x", "holds categories, where numbers are needed"),
        ("x,y\n1,2\n1,2\n", "y", "all outcomes are the same"),
        ("x,y\n1,€2\n1,$3\n", "y", "different units"),
        ("x,y\n1,2\nBonn, Markt,3\n", "y", "row 2 has 3"),
        ("x,y\n", "y", "has no rows"),
    ],
)
def test_what_no_spec_can_settle_is_refused(
    content: str, outcome: str | None, told: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        propose(tmp_path / "t.csv", outcome)
    assert told in str(refused.value)
