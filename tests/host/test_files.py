"""Files replaced or streamed to."""

import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from stakes.errors import StorageError
from stakes.host import files
from stakes.host.interrupts import Signalled, raised, signal_of


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    private, new = tmp_path / "private", tmp_path / "new"
    private.touch(mode=0o600)
    for path in (private, new):
        files.write(path, b"content")
    assert mode(private) == 0o600
    assert mode(new) == 0o666 & ~files.umask()


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_target_is_written(exists: bool, tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    target.parent.mkdir()
    if exists:
        target.write_bytes(b"before")
    link.symlink_to(Path("there") / "target")
    files.write(link, b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with files.writing(pipe) as file:
        file.write(b"a stream")
    reader.join(5)
    assert got == [b"a stream"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_dash_is_standard_output(tmp_path: Path, monkeypatch, capfdbinary) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-", "/dev/stdout"):
        with files.writing(Path(name)) as file:
            file.write(b"a row\n")
    assert capfdbinary.readouterr().out == b"a row\n" * 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="it is a folder, not a file"):
        files.write(tmp_path, b"content")
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_leaves_no_half_written_file(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    signum = getattr(signal, name)
    # The tests themselves may have been started with `nohup`.
    before = signal.signal(signum, signal.SIG_DFL)
    request.addfinalizer(lambda: signal.signal(signum, before))

    def half_written() -> None:
        with raised(signum), files.replacing(tmp_path / "table.csv") as file:
            file.write(b"half")
            os.kill(os.getpid(), signum)

    with pytest.raises(Signalled) as ended:
        half_written()
    assert signal_of(ended.value) == signum
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signum) == signal.SIG_DFL
