"""The commands as a whole: version, help, and command lines that are wrong."""

import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from projects import command, invoke


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


@pytest.mark.parametrize("args", [(), ("run",)])
def test_help_has_a_short_option(args: tuple[str, ...]) -> None:
    assert invoke(*args, "-h").output == invoke(*args, "--help").output
    assert invoke(*args, "-h").exit_code == 0


COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "no such command": (("fly",), "fly"),
    "a misspelt command": (("chekc", "spec.toml"), "Did you mean 'check'?"),
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


def test_a_closed_pipe_ends_a_command_quietly(finished: Path) -> None:
    process = subprocess.Popen(
        command("compare", finished), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 128 + signal.SIGPIPE


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_ctrl_c_while_importing_ends_without_a_traceback(seconds: float) -> None:
    # Whoever runs the tests may have told them to ignore Ctrl-C.
    heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeded}; from stakes_command import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "check", "no.toml"], stderr=subprocess.PIPE
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert b"Traceback" not in said
    assert process.returncode in (130, -signal.SIGINT, 2)  # 2 if it was faster than that
