"""``python -m dhaga dump PID``, what it says where there is nothing to dump, and the dump at a signal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dhaga
from dhaga.__main__ import main
from dhaga.debug import asked, dumps, inspect, places
from dhaga.debug.signals import dump_at, dumpers
from tests import scripts


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


CROSSED = """
    import dhaga
    from dhaga.threading import Lock
    locks = Lock(), Lock()
    def cross(first, second):
        with first:
            while not second.locked():
                dhaga.sleep(0)
            print(dhaga.current().name)
            second.acquire()
    dhaga.spawn(cross, *locks, name="left")
    dhaga.spawn(cross, *locks[::-1], name="right")
    dhaga.sleep(60)
"""


def test_a_dump_of_another_process_names_who_waits_for_whom() -> None:
    program = scripts.Program(CROSSED, DHAGA_DEBUG="1")
    try:
        program.interrupt_at("right", signal.SIGCONT).interrupt_at("left", signal.SIGCONT)
        command = [sys.executable, "-m", "dhaga", "dump", str(program.process.pid)]
        found = subprocess.run(command, cwd=scripts.ROOT, capture_output=True, text=True, timeout=scripts.PATIENCE)
    finally:
        program.process.kill()
        program.outcome()
    assert (found.returncode, found.stderr) == (0, "")
    first, second, *_ = found.stdout.splitlines()
    assert first.startswith(f"process {program.process.pid} at ")
    assert second == "deadlock: left waits for right waits for left"
    assert "lock.acquire on <Lock held by right, 1 parked>, held by right" in found.stdout


def test_it_can_be_had_as_json_and_of_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with inspect(), dhaga.Scheduler("observed") as observed:
        sleeper = observed.spawn(dhaga.sleep, 60, name="sleeper")
        assert main(["dump", str(os.getpid()), "--json"]) == 0
        schedulers = json.loads(capsys.readouterr().out)["schedulers"]
        assert [view["name"] for each in schedulers for view in each["dhagas"]] == ["sleeper"]
        assert main(["dump", str(os.getpid()), "--ident", str(sleeper.ident)]) == 0
        assert capsys.readouterr().out.startswith("sleeper ")
        sleeper.cancel()


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with inspect(), dhaga.Scheduler("observed") as observed:
        observed.spawn(dhaga.sleep, 60, name="\x1b[2J\udcff", daemon=True)
        assert main(["dump", str(os.getpid())]) == 0
    assert "  ?[2J? " in capsys.readouterr().out


def test_a_pager_may_be_left() -> None:
    here, there = os.pipe()
    os.close(here)
    command = [sys.executable, "-m", "dhaga", "dump", str(os.getpid())]
    with inspect():
        found = subprocess.run(
            command, cwd=scripts.ROOT, stdout=there, stderr=subprocess.PIPE, timeout=scripts.PATIENCE
        )
    os.close(there)
    assert (found.returncode, found.stderr) == (1, b"")


def refusal(capsys: pytest.CaptureFixture[str], pid: int) -> str:
    """Return what is said of a process that cannot be asked."""
    assert dumps.main([str(pid)]) == 1
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
        left.bind(str(folder / places.name_of(os.getpid())))
    assert "is of an earlier process with that number" in refusal(capsys, os.getpid())


def test_another_users_process_is_not_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr("dhaga.debug.asked.os.geteuid", lambda: owner + 1)
    assert f"belongs to user {owner}: ask as that user, or as root" in refusal(capsys, os.getpid())


def test_an_impostor_is_asked_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(folder / places.name_of(os.getppid())))
        impostor.listen()
        assert "somebody else than process" in refusal(capsys, os.getppid())


def test_one_that_does_not_answer_is_given_up(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "ANSWER_SECONDS", 0.01)
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(folder / places.name_of(os.getpid())))
        mute.listen()
        assert "has not answered for 0.01 s: it is stopped, or a C call in it holds" in refusal(capsys, os.getpid())


@pytest.mark.parametrize("pid", ["x", "0", "-1", "99999999999999999999", ""])
def test_what_is_no_number_of_a_process_is_a_fault_of_the_command_line(
    capsys: pytest.CaptureFixture[str], pid: str
) -> None:
    with pytest.raises(SystemExit) as end:
        dumps.main(["--", pid])
    assert end.value.code == 2
    assert f"{pid!r} is no number of a process" in capsys.readouterr().err


# ---- at a signal

HELD = """
    import os, time
    import dhaga
    def hold():
        print("held")
        deadline = time.monotonic() + 20
        file = open(os.environ["DHAGA_DUMP_FILE"])
        while "in hold" not in file.read():
            assert time.monotonic() < deadline
    dhaga.spawn(hold, name="holder").join()
    try:
        dhaga.park("for ever")
    except dhaga.Deadlock:
        print("deadlock")
"""


def test_a_signal_has_a_dump_written_while_a_dhaga_holds_the_main_thread(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    program = scripts.Program(HELD, DHAGA_DUMP_SIGNAL="USR1", DHAGA_DUMP_FILE=str(file))
    outcome = program.interrupt_at("held", signal.SIGUSR1).outcome()
    assert (outcome.status, outcome.lines, outcome.err) == (0, ["deadlock"], "")
    assert "holder RUNNING" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


ONE_OF_ITS_OWN = """
    import signal, os
    signal.signal(signal.SIGUSR1, lambda *_: print("mine"))
    import dhaga
    os.kill(os.getpid(), signal.SIGUSR1)
    from dhaga.debug import dump_at
    print(dump_at("SIGUSR2"))
"""


def test_a_handler_of_the_program_stays() -> None:
    outcome = scripts.run(ONE_OF_ITS_OWN, DHAGA_DUMP_SIGNAL="USR1")
    assert (outcome.status, outcome.lines) == (0, ["mine", "True"])
    assert "no dump at SIGUSR1: the program has a handler for it; choose another signal" in outcome.err


FORKS = """
    import os, signal, time
    import dhaga
    if pid := os.fork():
        os.waitpid(pid, 0)
    else:
        os.kill(os.getpid(), signal.SIGUSR1)
        while os.fstat(2).st_size == 0:
            time.sleep(0.01)
        os._exit(0)
"""


def test_a_forked_child_writes_its_own_to_stderr(tmp_path: Path) -> None:
    with (tmp_path / "err").open("w+") as err:
        subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(FORKS)],
            cwd=scripts.ROOT,
            env={**os.environ, "DHAGA_DUMP_SIGNAL": "USR1"},
            stderr=err,
            timeout=scripts.PATIENCE,
            check=True,
        )
        err.seek(0)
        assert err.read().startswith("process ")


@pytest.mark.logs
@pytest.mark.parametrize("name", ["KILL", "NOTHING", "", "1"])
def test_a_signal_that_cannot_be_handled_is_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert not dump_at(name)
    assert dumpers == {}
    assert f"there is none by the name of {name!r} that could be handled; try USR1" in caplog.text


@pytest.mark.logs
def test_handlers_are_set_in_the_main_thread_alone(caplog: pytest.LogCaptureFixture) -> None:
    with dhaga.Scheduler() as other:
        assert not other.spawn(dump_at, "USR1").result()
    assert "import dhaga there" in caplog.text


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        dump_at("USR1", str(tmp_path / "none" / "dump"))
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


USERS = """
    import os, shutil, tempfile
    from dhaga import debug
    from dhaga.debug.asked import Line, NotAnswered
    tempfile.tempdir = tempfile.mkdtemp()
    os.chmod(tempfile.tempdir, 0o777)
    del os.environ["XDG_RUNTIME_DIR"]
    mine = debug.inspect()
    ready, done = os.pipe(), os.pipe()
    if pid := os.fork():
        os.read(ready[0], 1)
        with Line(pid) as line:
            print("root asks:", line.ask("table")["pid"] == pid)
        os.write(done[1], b"x")
        os.waitpid(pid, 0)
        shutil.rmtree(tempfile.tempdir)
    else:
        debug.inspect().stop()
        os.setgid(65534)
        os.setuid(65534)
        try:
            Line(os.getppid())
        except NotAnswered as error:
            print(str(error).replace(str(os.getppid()), "N"))
        try:
            mine.path.parent.iterdir().__next__()
        except PermissionError as error:
            print("shut")
        theirs = debug.inspect()
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        theirs.stop()
        os._exit(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_users_are_kept_apart_and_root_may_ask_any() -> None:
    lines = scripts.prints(USERS, "-W", "ignore::DeprecationWarning")
    assert lines == ["process N belongs to user 0: ask as that user, or as root", "shut", "root asks: True"]
