"""What is told of work under way."""

from stakes.host.progress import bar, begin, part_of, told_to


def test_parts_of_work_are_told_to_all_who_listen_and_to_nobody_else() -> None:
    outer, inner = list[str](), list[str]()
    begin("unheard")
    with told_to(outer.append):
        with told_to(inner.append), bar("VI", 3, show=False):
            begin("deciding")
        with part_of(lambda share: None):
            begin("a part of what has been told")
        begin("writing")
    begin("unheard")
    assert inner == ["fitting VI", "deciding"]
    assert outer == [*inner, "writing"]
