"""What is told and shown of work under way."""

import sys

import pytest

from stakes.host.progress import bar, begin, count_pieces, part_of, parts_of, report_to, show_status


def test_parts_of_work_are_told_to_all_who_listen_and_to_nobody_else() -> None:
    outer, inner = list[str](), list[str]()
    begin("unheard")
    with report_to(outer.append):
        with report_to(inner.append), bar("VI", 3, show=False):
            begin("deciding")
        with part_of(lambda share: None):
            begin("a part of what has been told")
        begin("writing")
    begin("unheard")
    assert inner == ["fitting VI", "deciding"]
    assert outer == [*inner, "writing"]


def test_pieces_of_a_whole_report_their_share_and_tell_nothing() -> None:
    shares, told = list[float](), list[str]()
    with report_to(told.append), part_of(shares.append), count_pieces("seeds", 4) as tell:
        for failed in (False, True):
            begin("a piece")
            tell(failed)
    assert shares == [0.25, 0.5]
    assert told == []


def test_status_is_said_line_by_line_where_there_is_no_terminal() -> None:
    said = list[str]()
    with show_status(said.append) as show:
        begin("reading")
        show("3 rows decided")
    assert said == ["reading"]


def test_bars_are_shown_on_a_terminal_and_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with bar("VI", 300) as tell:
        tell(100, -12.5, -1.0)
    with parts_of("ways tried", 2) as tick:
        tick("plain VI")
        with bar("VI", 2) as tell:
            tell(1, 0.0, 0.0)
        tick("calibrated")
    with count_pieces("seeds", 2) as count:
        count(True)
    with show_status(print) as show:
        show("3 rows decided")
    shown = capsys.readouterr().err
    for text in (
        "bound -12.50 utility -1.00",
        "100/300",
        "calibrated",
        "1 failed",
        "3 rows decided",
    ):
        assert text in shown
