"""A dump at a signal, whatever the process is at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dhaga
from dhaga.debug._dump_signal import dump_at, dump_handlers
from tests.kit import scripts

HELD = """
    import os, time
    import dhaga
    def hold():
        print("held")
        deadline = time.monotonic() + 30
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
    assert dump_handlers == {}
    assert f"there is no signal {name!r} that can be handled; try USR1" in caplog.text


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
    from dhaga.debug._remote.client import InspectorClient
    from dhaga.debug._remote.not_answered import NotAnswered
    tempfile.tempdir = tempfile.mkdtemp()
    os.chmod(tempfile.tempdir, 0o777)
    del os.environ["XDG_RUNTIME_DIR"]
    mine = debug.inspect()
    ready, done = os.pipe(), os.pipe()
    if pid := os.fork():
        os.read(ready[0], 1)
        with InspectorClient(pid) as line:
            print("root asks:", line.ask("table")["pid"] == pid)
        os.write(done[1], b"x")
        os.waitpid(pid, 0)
        shutil.rmtree(tempfile.tempdir)
    else:
        debug.inspect().stop()
        os.setgid(65534)
        os.setuid(65534)
        try:
            InspectorClient(os.getppid())
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
    refused = "process N belongs to user 0: run this command as that user, or as root"
    assert lines == [refused, "shut", "root asks: True"]
