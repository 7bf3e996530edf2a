"""Specs that are proposed for a table of the user."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from stakes.app.spec import findings_text, propose, read_job, spec_text
from stakes.app.spec.proposing import dispersion
from stakes.errors import InputError


def test_the_spec_of_a_table_has_a_formula_and_splits_forward_in_time(bakery: Path) -> None:
    spec = tomllib.loads((bakery / "stakes.toml").read_text(encoding="utf-8"))
    assert spec["model"] == {
        "formula": "Anzahl_Brote ~ C(date_weekday) + date_days + (1 | Filiale) + sunshine + Preis",
        "family": "poisson",
    }
    assert spec["data"]["held_out"] == {"fraction": 0.2, "pick": "last"}
    assert spec["choose"]["folds"] == {"forward": {"blocks": 5}}
    job = read_job(bakery / "stakes.toml")
    assert (job.rows_in(job.fit), job.rows_in(job.held_out)) == (317, 79)
    assert max(job.fit.arguments["date"]) < min(job.held_out.arguments["date"])
    np.testing.assert_allclose(job.fit.arguments["Preis"][0], 3.26)


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
        assert found.left_out["PLZ"] == "it says the same as Filiale"
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


@pytest.mark.parametrize(
    ("outcome", "warned"), [("Verkaufte Brote", True), ("units sold", True), ("Nachfrage", False)]
)
def test_sales_are_told_from_demand(outcome: str, warned: bool, tmp_path: Path) -> None:
    lines = [f"{i % 7};{i * i % 13}" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join([f"x;{outcome}", *lines]) + "\n", "utf-8")
    text = spec_text(propose(tmp_path / "t.csv", outcome), tmp_path)
    assert ("Sold is not demand" in text) == warned


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
        ("x,y\na,1\nb,2\n", "x", "holds categories; outcomes must be numbers"),
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
