"""Runs on several processes of this machine, left alone and disturbed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.disturbed import (
    Alone,
    command,
    disturb,
    left_alone,
    parameters,
    run_command,
    workers,
    write_project,
)
from stakes.app.runs import RunFolder
from stakes.app.runs.opening import ALL
from stakes.host.trees import load_arrays

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "6"))
"""How often runs are disturbed, in each way; `python -m benchmarks.disturbed` makes a table."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("shops"))


@pytest.fixture(scope="module")
def alone(project: Path) -> Alone:
    return left_alone(project, project / "alone")


def test_only_the_loopback_address_is_listened_on(project: Path, tmp_path: Path) -> None:
    watched = subprocess.Popen(run_command(project, tmp_path / "run", 2))
    listening: set[str] = set()
    while watched.poll() is None:
        for pid in workers(watched.pid):
            listening |= _listening(pid)
        time.sleep(0.3)
    assert watched.returncode in (0, 4)
    assert listening == {"127.0.0.1"}


def _listening(pid: int) -> set[str]:
    """The addresses at which a process listens."""
    try:
        held = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
        lines = [
            line.split()
            for name in ("tcp", "tcp6")
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        ]
    except OSError:  # it has just ended
        return set()
    return {
        _address(line[1].partition(":")[0])
        for line in lines
        if line[3] == "0A" and f"socket:[{line[9]}]" in held
    }


def _address(digits: str) -> str:
    words = [bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    # IPv4 addresses may be written as those of IPv6.
    return socket.inet_ntop(family, b"".join(words)).removeprefix("::ffff:")


@pytest.mark.parametrize("number", range(KILLS))
def test_a_disturbed_run_ends_with_the_same_numbers(
    number: int, project: Path, alone: Alone, tmp_path: Path
) -> None:
    """Disturbed at any moment at which the processes depend on each other."""
    found = disturb(number, project, tmp_path, alone)
    assert found.differs == []
    assert bool(found.said) == (found.stage != "none")
    print(f"{found}: {found.seconds - alone.seconds:.0f} s lost")


def test_rows_held_out_are_fitted_by_all_processes_in_the_end(
    project: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    tried = ("data.held_out={fraction = 0.2}", "fit.steps=600")
    words = [part for each in tried for part in ("--set", each)]
    ended = subprocess.run([*run_command(project, run, 2), *words], check=False, timeout=600)
    assert ended.returncode in (0, 4)
    manifest = RunFolder(run).manifest()
    assert (manifest.ending.instances, manifest.refit.rows) == (41, 203)
    fits = [load_arrays(run / name)["VI/elbo"] for name in ("state.npz", "refit.npz")]
    assert [len(elbo) for elbo in fits] == [600, 600]
    assert fits[1][-100:].mean() < fits[0][-100:].mean()  # of more rows


@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("{calibrated = {strength = 4}}", "calibrated, strength 4"),
        ('"corrected"', "plain VI, corrected by shift"),
    ],
)
def test_what_is_chosen_is_fitted_to_all_rows_once_processes_have_parted(
    way: str, name: str, project: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    tried = (
        "data.held_out={fraction = 0.2}",
        "fit.steps=400",
        f"choose={{ways = [{way}], folds = 2}}",
    )
    words = [part for each in tried for part in ("--set", each)]
    begun = command("run", project / "spec.toml", "--processes", 2, "--no-report", "-o", run)
    ended = subprocess.run([*begun, *words], check=False, timeout=600)
    assert ended.returncode in (0, 4)
    manifest = RunFolder(run).manifest()
    assert manifest.choice.way == name
    assert {"plain VI", name} <= set(manifest.refit.ways)
    arrays = load_arrays(run / "choice.npz")
    assert any(path.startswith(f"{ALL}{name}/") for path in arrays)
    decided = ("decide", run, project / "table.csv", "-o", tmp_path / "out.csv", "--way", name)
    answered = subprocess.run(command(*decided), check=False, capture_output=True, text=True)
    assert f"by {name}, fitted to all 203 rows" in answered.stderr


STREAMED = """\
import sys

import stakes

index, count, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
on = stakes.join(f"127.0.0.1:{port}", process=index, of=count)
import numpy as np
import streamed
from streamed import KEY, stream_in

problem, options = (getattr(streamed, name) for name in sys.argv[5:])
result = stakes.calibrate(
    KEY, problem, stream_in(folder), options=options, progress=False, on=on
)
on.leave()
found = {f"{name} {n}": v for name, fit in result.fits.items() for n, v in fit.params.items()}
found |= {f"{name} bound": fit.bound for name, fit in result.fits.items()}
np.savez(f"{folder}/{index}", decisions=result.decisions, scale=result.scale, **found)
"""


def fit_stream(problem: str, options: str, folder: Path, count: int) -> None:
    """By several processes, each of which leaves a file with what it has found."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    words, rest = [sys.executable, "-c", STREAMED], [str(folder), problem, options]
    others = [
        subprocess.Popen([*words, str(i), str(count), str(port), *rest], env=here)
        for i in range(count)
    ]
    assert [each.wait(timeout=300) for each in others] == [0] * count
    assert not list(folder.glob("stakes-*"))  # every process has removed its copy


def test_processes_keep_the_latents_of_their_own_rows_of_a_stream(tmp_path: Path) -> None:
    """Whose exact posterior has mean (y - x) / 2 and variance 1/2."""
    pytest.importorskip("pyarrow")
    from streamed import write_table

    write_table(tmp_path)
    fit_stream("OF_ROWS", "LONGER", tmp_path, 2)
    x, y = np.loadtxt(tmp_path / "table.csv", delimiter=",", skiprows=1).T
    first, second = (np.load(tmp_path / f"{index}.npz") for index in range(2))
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)
    for name in ("VI", "LCVI"):
        assert first[f"{name} own_auto_loc"].shape == (800,)
    spread = np.logaddexp(0, first["VI own_auto_scale"])
    assert np.exp(np.log(spread).mean()) == pytest.approx(np.sqrt(0.5), rel=0.1)
    # Steps of full size leave noise: 0.22 here, where decisions of other rows would be 1.6 off.
    assert np.std(first["decisions"] - x - (y - x) / 2) < 0.35


@pytest.mark.parametrize("count", [2, 4])
def test_a_stream_is_fitted_by_several_processes_as_by_one(tmp_path: Path, count: int) -> None:
    """With the same minibatches, in which rows of a share count for its size."""
    pytest.importorskip("pyarrow")
    from streamed import expected_of, write_table

    write_table(tmp_path)
    fit_stream("PROBLEM", "OPTIONS", tmp_path, count)
    first = np.load(tmp_path / "0.npz")
    known = expected_of(tmp_path, count, float(first["scale"]))
    for index in range(count):
        found = np.load(tmp_path / f"{index}.npz")
        for name, value in known.items():
            tolerance = (1e-4 if name == "decisions" else 1e-5) * np.abs(value).max()
            np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


def test_a_run_is_resumed_on_another_number_of_processes(project: Path, tmp_path: Path) -> None:
    undisturbed = project / "undisturbed"
    subprocess.run(run_command(project, undisturbed, 2), check=False, timeout=900)
    run = tmp_path / "run"
    watched = subprocess.Popen(run_command(project, run, 2))
    while not (run / "state.npz").exists():
        assert watched.poll() is None
        time.sleep(0.1)
    watched.send_signal(signal.SIGTERM)
    assert watched.wait(timeout=120) == 128 + signal.SIGTERM
    before = parameters(run)["VI/elbo"]
    ended = subprocess.run(
        command("resume", run, "--no-report", "--processes", 4), check=False, timeout=600
    )
    assert ended.returncode in (0, 4)
    after, expected = parameters(run), parameters(undisturbed)
    np.testing.assert_array_equal(after["VI/elbo"][: len(before)], before)  # nothing is lost
    ends = [trace["calibrated/elbo"][-1000:].mean() for trace in (after, expected)]
    noise = expected["calibrated/elbo"][-1000:].std() / np.sqrt(1000)
    assert abs(ends[0] - ends[1]) < 5 * np.sqrt(2) * noise
