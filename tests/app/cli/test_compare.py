"""`stakes compare`: several runs in one table."""

import json
from pathlib import Path

from projects import invoke


def test_compare_shows_runs_side_by_side(finished: Path) -> None:
    shown = invoke("compare", finished, finished)
    assert shown.exit_code == 0, shown.stderr
    assert shown.output.count("held out") >= 2
    assert "\x1b" not in shown.output
    rows = json.loads(invoke("compare", finished, "--json").stdout)
    assert rows[0]["instances"] == 10
