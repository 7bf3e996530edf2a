"""The supervisor of several processes: what it does when one dies, is stuck or is stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from stakes.errors import StakesError
from stakes.host import supervisor, watching

FIRST_ONLY = """
import os, sys, time
from pathlib import Path
from stakes.host.watching import Waiting
index, beats, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
first = not os.path.exists(f"{folder}/{index}")
open(f"{folder}/{index}", "a").write("x")
def starts(index):
    path = f"{folder}/{index}"
    return os.path.getsize(path) if os.path.exists(path) else 0
until = time.monotonic() + 10  # one that was ended before it began is not waited for
while starts(1 - index) < starts(index) and time.monotonic() < until:
    time.sleep(0.01)
def beat(count):
    with open(beats, "a") as file:
        file.write("chunk\\n" * count)
"""


def command(folder: Path, body: str) -> Callable[[int, str, Path], Sequence[str]]:
    def of(index: int, address: str, beats: Path) -> list[str]:
        assert address.startswith("127.0.0.1:")
        return [sys.executable, "-c", FIRST_ONLY + body, str(index), str(beats), str(folder)]

    return of


def supervised(folder: Path, body: str) -> tuple[int, list[str], list[int]]:
    """How it ended, what was said, and how often each process was started."""
    said: list[str] = []
    code = supervisor.supervise(command(folder, body), 2, final_codes=(0, 4), say=said.append)
    return code, said, [len((folder / str(index)).read_text()) for index in range(2)]


def test_nothing_is_started_again_where_nothing_is_lost(tmp_path: Path) -> None:
    body = "if index == 0: time.sleep(0.5); sys.exit(4)"
    assert supervised(tmp_path, body) == (4, [], [1, 1])


@pytest.mark.parametrize("lost", [0, 1])
def test_all_start_again_when_one_dies(tmp_path: Path, lost: int) -> None:
    body = f"""
if first and index == {lost}:
    os.kill(os.getpid(), 9)
if first:
    time.sleep(60)
"""
    code, [said], starts = supervised(tmp_path, body)
    assert (code, starts) == (0, [2, 2])
    assert said.startswith(f"process {lost} ended (SIGKILL); all processes start again")


def test_all_start_again_when_no_step_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE", 0.5)
    body = """
if index == 0:
    beat(3)
if first:
    time.sleep(60)
"""
    code, [said], starts = supervised(tmp_path, body)
    assert (code, starts) == (0, [2, 2])
    assert said.startswith("no step was taken for")


WAITING = """
if index == 0:
    waiting = Waiting(Path(beats), index)
    waiting({worked})
"""


def test_all_start_again_when_one_waits_for_another_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as for one that is caught in a loop before the first step."""
    monkeypatch.setattr(watching, "SILENCE", 0.5)
    body = WAITING.format(worked=0.2) + "time.sleep(60 if first else 0)"
    code, [said], starts = supervised(tmp_path, body)
    assert (code, starts) == (0, [2, 2])
    assert re.match(r"process 0 waited \d+ seconds for another", said)


LOOP = """
while first and index == 0:
    pass
time.sleep(60 if first else 0)
"""
ENDLESS = """
while first and index == 1:
    pass
time.sleep(60 if first else 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
@pytest.mark.parametrize(
    ("before", "said"),
    [
        (WAITING.format(worked=30.0), "process 1 seems to be in an endless loop"),
        (WAITING.format(worked=30.0) + LOOP, "process 0 seems to be in an endless loop"),
        (
            "index or [beat(1) or time.sleep(0.5) for _ in range(4)]",
            "seconds of a processor's time",
        ),
    ],
)
def test_an_endless_loop_is_told_by_the_time_of_a_processor_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, said: str
) -> None:
    """Long before others have waited three times as long as they worked, or twenty pauses."""
    monkeypatch.setattr(watching, "BUSY", 0.5)
    monkeypatch.setattr(watching, "SILENCE", 0.5)
    began = time.monotonic()
    code, [why], starts = supervised(tmp_path, before + ENDLESS)
    assert (code, starts) == (0, [2, 2])
    assert said in why
    assert time.monotonic() - began < 30


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_one_that_gets_no_processor_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BUSY", 0.3)
    body = WAITING.format(worked=30.0) + "time.sleep(2)"
    assert supervised(tmp_path, body) == (0, [], [1, 1])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_one_that_is_slow_but_at_work_is_waited_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE", 1.5)
    body = (
        WAITING.format(worked=0.2)
        + """
    time.sleep(3)
    waiting(None)
    open(f"{folder}/over", "w")
while index and not os.path.exists(f"{folder}/over"):
    until = time.process_time() + 0.01
    while time.process_time() < until:
        pass
    time.sleep(0.05)
"""
    )
    assert supervised(tmp_path, body) == (0, [], [1, 1])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_one_that_takes_no_longer_than_the_other_did_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BUSY", 0.3)
    body = """
def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
work(1.0 if index == 0 else 2.0)
"""
    body += WAITING.format(worked=30.0) + "    time.sleep(3)"
    assert supervised(tmp_path, body) == (0, [], [1, 1])


@pytest.mark.parametrize("goes_on", ["", "waiting(None)"])
def test_one_that_worked_long_waits_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: str
) -> None:
    monkeypatch.setattr(watching, "SILENCE", 0.3)
    body = WAITING.format(worked=0.01 if goes_on else 30.0)
    body += f"    {goes_on}\ntime.sleep(1.5)"
    assert supervised(tmp_path, body) == (0, [], [1, 1])


def test_each_start_in_vain_waits_longer_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one process takes longer than the others for good reason, the run still ends."""
    monkeypatch.setattr(watching, "SILENCE", 0.3)
    body = WAITING.format(worked=0.01) + "time.sleep(2)"
    code, said, _ = supervised(tmp_path, body)
    assert code == 0
    assert len(said) == 2


def test_a_long_silence_before_the_second_step_is_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE", 0.3)
    body = "index or beat(1); time.sleep(1.5)"
    assert supervised(tmp_path, body) == (0, [], [1, 1])


def test_a_long_silence_after_a_fit_is_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE", 0.3)
    body = """
if index == 0:
    beat(3)
    open(beats, "a").write("saved\\n")
time.sleep(1.5)
"""
    assert supervised(tmp_path, body) == (0, [], [1, 1])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_all_start_again_when_one_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STOPPED", 0.5)
    body = """
if first:
    if index == 1:
        os.kill(os.getpid(), 19)
    time.sleep(60)
"""
    code, [said], starts = supervised(tmp_path, body)
    assert (code, starts) == (0, [2, 2])
    assert said.startswith("process 1 was stopped")


@pytest.mark.parametrize("taken", ["", "index or beat(3); time.sleep(0.5)"])
def test_it_gives_up_where_no_step_is_ever_saved(tmp_path: Path, taken: str) -> None:
    """Also where steps are taken, and lost again."""
    body = f"""
{taken}
if index == 1:
    sys.exit("no such thing")
time.sleep(60)
"""
    with pytest.raises(StakesError, match=r"started 5 times.*exit code 1.*no such thing"):
        supervised(tmp_path, body)
    assert len((tmp_path / "1").read_text()) == supervisor.MOST_IN_VAIN


def test_what_is_saved_may_be_lost_any_number_of_times(tmp_path: Path) -> None:
    body = """
if index == 0:
    beat(1)
    open(beats, "a").write("saved\\n")
time.sleep(0.5)
if len(open(f"{folder}/1").read()) < 7:
    sys.exit(9) if index else time.sleep(60)
"""
    code, _, starts = supervised(tmp_path, body)
    assert (code, starts) == (0, [7, 7])


def ready(folder: Path, body: str) -> subprocess.Popen[bytes]:
    """A supervisor in a process of its own, whose processes are ready."""
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_supervisor import command
from stakes.host.supervisor import supervise
folder = Path({str(folder)!r})
sys.exit(supervise(command(folder, {body!r}), 2, final_codes=(0,), say=print))
"""
    started = subprocess.Popen([sys.executable, "-c", program])
    while not (folder / "ready").exists():
        assert started.poll() is None
        time.sleep(0.05)
    return started


def test_a_signal_goes_to_the_first_process(tmp_path: Path) -> None:
    body = """
import signal
if index == 0:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    open(f"{folder}/ready", "w")
time.sleep(60)
"""
    started = ready(tmp_path, body)
    os.kill(started.pid, signal.SIGTERM)
    assert started.wait(timeout=30) == 143


def test_the_third_signal_ends_processes_that_do_not_heed_any(tmp_path: Path) -> None:
    body = """
import signal
if index == 0:
    signal.signal(signal.SIGTERM, lambda *_: open(f"{folder}/heard", "a").write("x"))
    open(f"{folder}/ready", "w")
while True:
    time.sleep(60)
"""
    started = ready(tmp_path, body)
    for count in (1, 2):
        os.kill(started.pid, signal.SIGTERM)
        while not (
            (tmp_path / "heard").exists() and len((tmp_path / "heard").read_text()) == count
        ):
            assert started.poll() is None
            time.sleep(0.05)
    os.kill(started.pid, signal.SIGTERM)
    assert started.wait(timeout=30) == 143


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot do it")
@pytest.mark.parametrize("when", ["before", "after"])
def test_processes_end_when_their_supervisor_is_killed(tmp_path: Path, when: str) -> None:
    """Before or after they have said that they are to."""
    body = f"""
from pathlib import Path
from stakes.host.supervisor import end_with_supervisor
if index == 0:
    open(f"{{folder}}/pid", "w").write(str(os.getpid()))
    if {when == "after"}:
        end_with_supervisor(Path(beats))
    watcher = os.getppid()
    open(f"{{folder}}/ready", "w")
    while {when == "before"} and os.getppid() == watcher:
        time.sleep(0.01)
    end_with_supervisor(Path(beats))
time.sleep(60 if index == 0 else 2)
"""
    started = ready(tmp_path, body)
    started.kill()
    started.wait()
    first = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    until = time.monotonic() + 20
    while first.exists() and first.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.05)
