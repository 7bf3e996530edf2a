"""The data doctor: what is written in tables, read as meant or told with row and column."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from stakes.errors import InputError
from stakes.tables import Dialect, Hints, Kind, TableFile, examine
from stakes.tables.values import dates_in, number, numbers_in


@pytest.mark.parametrize(
    ("word", "decimal", "value"),
    [
        ("12", ".", 12),
        ("-1.5e3", ".", -1500),
        ("€2.90", ".", 2.9),
        ("-€2.90", ".", -2.9),
        ("2,90 €", ",", 2.9),
        ("1.234,50 €", ",", 1234.5),
        ("1,234.5", ".", 1234.5),
        ("1,234,567", ".", 1234567),
        ("1.234.567", ",", 1234567),
        ("1'000", ".", 1000),
        ("1\u202f000", ".", 1000),
        ("\u22123", ".", -3),
        ("12 %", ".", 12),
        ("3.", ".", 3),
        (".5", ".", 0.5),
        ("2,90", ".", None),
        ("2.90", ",", None),
        ("12,34,567", ".", None),
        ("1,234'567", ".", None),
        ("1_000", ".", None),
        ("€2€", ".", None),
        ("--3", ".", None),
        ("1.2.3", ".", None),
        ("n/a", ".", None),
        ("", ".", None),
        ("nan", ".", None),
        ("12a", ".", None),
    ],
)
def test_numbers_are_read_as_people_write_them(
    word: str, decimal: str, value: float | None
) -> None:
    found = number(word, decimal)
    assert (None if found is None else found.value) == value


def test_whole_numbers_stay_whole_and_units_are_noted() -> None:
    assert numbers_in(["1", "-2", "1,000"], ".").whole
    assert not numbers_in(["1", "2.0"], ".").whole
    found = numbers_in(["1", "€2", "x", "$3"], ".")
    assert (list(found.units.items()), found.others.tolist()) == ([("€", 1), ("$", 3)], [2])


@pytest.mark.parametrize(
    ("words", "read", "ways"),
    [
        (["2024-12-31", "2025-01-01"], ["2024-12-31", "2025-01-01"], 1),
        (["31.12.2024", "1.2.2025"], ["2024-12-31", "2025-02-01"], 1),
        (["12/31/2024", "02/01/2025"], ["2024-12-31", "2025-02-01"], 1),
        (["01/02/2025", "03/04/2025"], ["2025-02-01", "2025-04-03"], 2),
        (["01/01/2025", "02/02/2025"], ["2025-01-01", "2025-02-02"], 1),
        (["2024-12-31T23:30:00+01:00"], ["2024-12-31T23:30:00"], 1),
    ],
)
def test_dates_are_read_by_the_one_way_that_reads_all(
    words: list[str], read: list[str], ways: int
) -> None:
    found = dates_in(words)
    assert found is not None
    assert found.values.astype(str).tolist() == read
    assert len(found.formats) == ways


def test_what_is_no_date_is_not_read_as_one() -> None:
    assert dates_in(["1.5", "2.25"]) is None
    assert dates_in(["Köln", "Ulm"]) is None


TABLE = {
    "price": ["€2.90", "€3.10", "n/a", "€2.50"],
    "town": ["Köln ", "Köln", "Ulm", "ulm"],
    "day": ["2024-01-01", "2024-01-02", "soon", "2024-01-04"],
    "sold": ["3", "", "5", "NA"],
    "code": ["01067", "01069", "01067", "04103"],
}


def test_everything_odd_is_told_at_once_with_row_and_column() -> None:
    found = examine(TABLE, {})
    told = [str(finding) for finding in found.findings]
    assert [(f.column, f.rows, f.stops) for f in found.findings] == [
        ("price", (3,), True),
        ("price", (), False),
        ("town", (1,), True),
        ("town", (4,), True),
        ("day", (3,), True),
        ("sold", (2, 4), True),
        ("code", (), False),
    ]
    assert told[0].startswith(
        "column 'price': 3 of 4 values are numbers; row 3 says 'n/a'. If that means no value: "
        "`replace.price = { 'n/a' = '' }` in [data]."
    )
    assert "'€2.90' and similar words are read as numbers, here 2.9" in told[1]
    assert "'Köln ' (1 time, first in row 1)" in told[2]
    assert "differ by spaces alone" in told[2]
    assert "differ by capital letters alone" in told[3]
    assert "3 of 4 values are dates; row 3 says 'soon'" in told[4]
    assert "has no value in rows 2 and 4" in told[5]
    assert "'01067' and similar numbers begin with a zero. They are read as numbers" in told[6]


def test_what_is_said_of_columns_settles_what_is_odd() -> None:
    said = {
        "price": Hints(replace={"n/a": ""}, gaps=True),
        "town": Hints(replace={"Köln ": "Köln", "ulm": "Ulm"}),
        "day": Hints(Kind.DATES, replace={"soon": "2024-01-03"}),
        "sold": Hints(gaps=True),
        "code": Hints(Kind.CATEGORIES),
    }
    columns, findings = examine(TABLE, said)
    assert not any(finding.stops for finding in findings)
    np.testing.assert_array_equal(columns["price"].values, [2.9, 3.1, np.nan, 2.5])
    assert columns["town"].counts() == [("Köln", 2), ("Ulm", 2)]
    assert columns["day"].values[2] == np.datetime64("2024-01-03")
    assert columns["sold"].missing.tolist() == [False, True, False, True]
    assert columns["code"].values.tolist() == TABLE["code"]


@pytest.mark.parametrize(
    ("words", "said", "told"),
    [
        (["€1", "$2"], Hints(), "different units: '€1' and '$2'"),
        (["01/02/2025", "03/04/2025"], Hints(), "'01/02/2025' may be written"),
        (["inf", "1"], Hints(), "is infinite in row 11"),
        (["", "1", "inf"], Hints(replace={"": "2"}), "is infinite in row 13"),
        (["a", "b"], Hints(Kind.NUMBERS), "must hold numbers; row 11 has 'a'"),
        (["a", "b"], Hints(Kind.DATES), "row 11: 'a' is no date"),
        (["Kln", "Ulm"], Hints(Kind.CATEGORIES, known=["Köln", "Ulm"]), "Did you mean 'Köln'?"),
        (
            ["Köln ", "Ulm"],
            Hints(Kind.CATEGORIES, known=["Köln", "Ulm"], new=True),
            "'Köln' of the fit and 'Köln ' (1 time, first in row 11) differ by spaces",
        ),
        (["wet", "n/a", "dry", "n/a"], Hints(), "rows 12 and 14 say 'n/a'. If that means no value"),
        (["wet", "-", "dry"], Hints(), "`replace.x = { '-' = '' }` in [data]; if it is a category"),
        (["wet", "K.A."], Hints(Kind.CATEGORIES, known=["wet"], new=True), "row 12 says 'K.A.'"),
        (["wet", "NA"], Hints(Kind.CATEGORIES, known=["wet"], new=True), "has no value in row 12"),
    ],
)
def test_what_cannot_be_settled_is_asked_about(words: list[str], said: Hints, told: str) -> None:
    found = examine({"x": words}, {"x": said}, first_row=10).findings
    assert [told in str(finding) and finding.stops for finding in found] == [True]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wet", "n/a"], Hints(Kind.CATEGORIES)),
        (["NA", "DE"], Hints(Kind.CATEGORIES)),
        (["NA", "n/a"], Hints(Kind.CATEGORIES, known=["NA", "n/a"])),
        (["+", "-"], Hints()),
    ],
)
def test_categories_may_be_called_what_elsewhere_is_no_value(words: list[str], said: Hints) -> None:
    columns, findings = examine({"x": words}, {"x": said})
    assert (columns["x"].values.tolist(), findings) == (words, [])


def test_words_for_no_value_among_categories_leave_it_missing_once_settled() -> None:
    (asked,) = examine({"x": ["wet", "n/a", "dry"]}, {}).findings
    columns, findings = examine(
        {"x": ["wet", "n/a", "dry"]}, {"x": Hints(replace=dict(asked.change), gaps=True)}
    )
    assert columns["x"].missing.tolist() == [False, True, False]
    assert [finding.what for finding in findings] == ["has no value in row 2"]


def test_new_categories_pass_where_there_may_be_some() -> None:
    said = Hints(Kind.CATEGORIES, known=["Köln"], new=True)
    assert examine({"town": ["Köln", "Bonn"]}, {"town": said}).findings == []


def test_columns_with_types_are_examined_too() -> None:
    table = {"x": np.array([1.0, np.nan, np.inf]), "ok": np.array([True, False, True])}
    columns, findings = examine(table, {})
    assert [finding.what for finding in findings] == [
        "has no value in row 2",
        "is infinite in row 3",
    ]
    assert columns["ok"].values.dtype == bool


GERMAN = 'Datum;Filiale;Sonne;Erlös\n1.2.2024;"Köln; Dom";0,25;1.234,50 €\n2.2.2024;Ulm;1;2,5\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("packing", ["", "gzip", "zip"])
def test_a_german_table_just_works(encoding: str, packing: str, tmp_path: Path) -> None:
    path, content = tmp_path / "sales.csv", GERMAN.encode(encoding)
    if packing == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("sales.csv", content)
    else:
        path.write_bytes(gzip.compress(content) if packing else content)
    file = TableFile(path)
    assert (file.dialect.separator, file.dialect.decimal) == (";", ",")
    assert file.dialect.encoding == encoding
    assert file.columns == ["Datum", "Filiale", "Sonne", "Erlös"]
    (part,) = file.parts(file.columns)
    columns, findings = examine(part.columns, {}, decimal=file.dialect.decimal or "")
    assert columns["Datum"].values.astype(str).tolist() == ["2024-02-01", "2024-02-02"]
    assert columns["Filiale"].values.tolist() == ["Köln; Dom", "Ulm"]
    assert columns["Sonne"].values.tolist() == [0.25, 1]
    assert columns["Erlös"].values.tolist() == [1234.5, 2.5]
    assert not any(finding.stops for finding in findings)


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("a,b\n1,2.5\n", ",", "."),
        ("a\tb\n1,5\t2\n", "\t", ","),
        ("a|b\n1|2\n", "|", "."),
        ("a\n1\n2\n", ",", "."),
        ('a,b\n"1,234",x\n', ",", "."),
        ('a,b\n"1,5",x\n', ",", ","),
        ("name;x\nKöln, Dom;1.5\n", ";", "."),
        ("a,b\nx;y,1\n", ",", "."),
    ],
)
def test_separator_and_decimal_sign_are_told_from_the_lines(
    text: str, separator: str, decimal: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    found = TableFile(tmp_path / "t.csv").dialect
    assert (found.separator, found.decimal) == (separator, decimal)


def test_what_is_said_of_a_file_holds(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,b;c\n1,5;\xe9\n".encode("latin-1"))
    said = Dialect(",", ".", "latin-1")
    assert TableFile(tmp_path / "t.csv", said).columns == ["a", "b;c"]
    (tmp_path / "u.csv").write_bytes(b"a\n\xff\xff\n")
    with pytest.raises(InputError, match=r"not written in utf-8.*encoding = "):
        list(TableFile(tmp_path / "u.csv", Dialect(encoding="utf-8")).parts(["a"]))


def test_rows_that_do_not_fit_the_header_are_noticed(tmp_path: Path) -> None:
    """A reader that shifts or cuts them would hand over wrong values in silence."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n\nBonn, am Markt,3\n4\n5,6,\n")
    parts = list(TableFile(tmp_path / "t.csv").parts(["a", "b"], 2))
    assert [part.rows for part in parts] == [2, 2]
    odd = [finding for part in parts for finding in part.findings]
    assert [finding.rows for finding in odd] == [(2,), (3,)]
    assert "names 2 columns, but row 2 has 3 values" in odd[0].what


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,a,,\n1,2,3,,\n")
    file = TableFile(tmp_path / "t.csv")
    with pytest.raises(InputError, match="the column 'a' more than once"):
        list(file.parts(["a"]))
    assert next(file.parts(["b"])).columns == {"b": ["2"]}


def test_what_is_missing_or_infinite_is_told_of_its_own_rows() -> None:
    found = examine({"x": ["", "1", "inf", ""], "y": ["", "", "", ""]}, {"x": Hints(gaps=True)})
    assert [(f.column, f.rows) for f in found.findings] == [
        ("x", (1, 4)),
        ("x", (3,)),
        ("y", (1, 2, 3, 4)),
    ]
