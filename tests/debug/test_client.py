"""Who may be asked, and what is told of one that cannot be."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dhaga._cli import dump
from dhaga.debug._remote import client, socket_path
from dhaga.debug._remote.not_answered import NotAnswered, ProcessEnded
from tests.kit import scripts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "dhaga"


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def refusal(capsys: pytest.CaptureFixture[str], pid: int) -> str:
    """Return what is said of a process that cannot be asked."""
    assert dump.main([str(pid)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_a_process_without_an_inspector_is_told_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, os.getpid())
    assert f"process {os.getpid()} has no inspector: start it with DHAGA_DEBUG=1" in said
    assert "dhaga.debug.inspect()" in said and "DHAGA_DUMP_SIGNAL" in said


def test_a_process_that_has_ended_is_said_to_be_none(capsys: pytest.CaptureFixture[str], gone: int) -> None:
    assert refusal(capsys, gone) == f"python -m dhaga dump: there is no process {gone}\n"


def test_a_socket_that_an_earlier_process_has_left_is_no_inspector(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / socket_path.name_of(os.getpid())))
    assert "is left by an earlier process with that id" in refusal(capsys, os.getpid())


def test_a_socket_in_a_directory_of_others_is_not_asked(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(str(folder / socket_path.name_of(os.getpid())))
        trap.listen()
        trap.settimeout(0)
        folder.chmod(0o770)
        assert f"process {os.getpid()} has no inspector" in refusal(capsys, os.getpid())
        with pytest.raises(BlockingIOError):
            trap.accept()


def test_another_users_process_is_not_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr("dhaga.debug._remote.client.os.geteuid", lambda: owner + 1)
    assert f"belongs to user {owner}: run this command as that user, or as root" in refusal(capsys, os.getpid())


def test_an_impostor_is_asked_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(folder / socket_path.name_of(os.getppid())))
        impostor.listen()
        assert "a process other than" in refusal(capsys, os.getppid())


LATE = """
    import dhaga.debug
    dhaga.debug.inspect()
    print("ready")
    dhaga.sleep(1000)
"""


def test_one_that_did_not_answer_in_time_is_asked_again() -> None:
    process = scripts.Program(LATE).process
    with process, process.stdout as out, process.stderr as err:
        assert out.readline() == "ready\n", err.read()
        with client.InspectorClient(process.pid) as line:
            stop_until_late(line)
            process.send_signal(signal.SIGCONT)
            assert line.ask("table")["pid"] == process.pid
            stop_until_late(line)
            process.kill()
            process.wait()
            with pytest.raises(ProcessEnded, match=f"there is no process {process.pid}"):
                line.ask("table")


def stop_until_late(line: client.InspectorClient) -> None:
    """Stop a process, and ask it until it does not answer: the signal may come a little later."""
    os.kill(line.pid, signal.SIGSTOP)
    line.socket.settimeout(0.05)
    with pytest.raises(NotAnswered, match="has not answered"):
        while True:
            line.ask("table")


def test_one_that_does_not_answer_is_given_up(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.01)
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(folder / socket_path.name_of(os.getpid())))
        mute.listen()
        assert "has not answered for 0.01 s: it is stopped, or a C call in it holds" in refusal(capsys, os.getpid())
