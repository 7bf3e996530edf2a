"""The commands as a whole: version, help, and command lines that are wrong."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from projects import invoke


def test_the_version_is_printed() -> None:
    assert invoke("--version").output == f"stakes {version('stakes')}\n"


@pytest.mark.parametrize(
    "name",
    ["demo", "init", "check", "run", "resume", "decide", "compare", "report"],
)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert f"Example: stakes {name}" in result.output


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "no such command": (("fly",), "fly"),
    "no spec": (("run",), "SPEC.toml"),
    "a spec that is not there": (("run", "no.toml"), "stakes init"),
    "a folder as spec": (("check", "."), "Is a directory"),
    "an unknown option": (("run", "no.toml", "--fast"), "--fast"),
    "a run that is not there": (("resume", "no-run"), "stakes run SPEC.toml"),
    "a folder that is no run": (("report", "."), "no manifest.json"),
    "no table": (("decide", "no-run"), "NEW.csv"),
    "no output": (("decide", "no-run", "new.csv"), "--out"),
    "nothing to compare": (("compare",), "RUN..."),
    "runs that are not there": (("compare", "no-run", "none"), "no-run is not a run folder"),
    "an unknown demo": (("demo", "nine-schools"), "Did you mean 'eight-schools'?"),
    "a negative seed": (("demo", "--seed", "-1"), "--seed"),
    "no steps": (("demo", "--steps", "0"), "--steps"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_command_line_is_told(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    args, said = COMMANDS[name]
    result = invoke(*args)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []
