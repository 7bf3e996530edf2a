"""The history of the benchmarks."""

import json

from benchmarks import history


def test_a_run_is_a_line_and_what_got_worse_is_listed(tmp_path) -> None:
    path = tmp_path / "history.jsonl"
    assert "0 earlier runs" in history.record({"step": 1.0, "import": 2.0}, path)
    assert "1 earlier runs" in history.record({"step": 1.1, "import": 2.0}, path)
    grown = history.record({"step": 1.3, "import": 1.0}, path).splitlines()
    assert [line.split() for line in grown] == [
        ["got", "worse", "before", "now"],
        ["step", "1.05", "1.30"],
    ]
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    assert [run["ratios"]["step"] for run in runs] == [1.0, 1.1, 1.3]
    assert {run["machine"] for run in runs} == {history.machine()}


def test_runs_on_other_machines_and_old_ones_do_not_count() -> None:
    def run(step: float, machine: str = "this") -> history.Run:
        return history.Run(date="", commit="", machine=machine, ratios={"step": step})

    assert history.worse(run(2.0), [run(1.0, "other")]) == []
    assert history.worse(run(2.0), [run(1.0)] * 10 + [run(2.0)] * 5) == []
    assert history.worse(run(2.0), [run(2.0)] * 10 + [run(1.0)] * 5) == [("step", 1.0, 2.0)]
