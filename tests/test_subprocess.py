"""``dhaga.subprocess``: the standard's contract, with what waits parked."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess as standard
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import os as dhaga_os
from dhaga import subprocess
from dhaga._iowait import child_wait
from dhaga.testing import open_fds, settle
from tests.kit.parking import parked
from tests.kit.scripts import Program, prints

LONG = ["sleep", "60"]
PIPE = standard.PIPE


@pytest.fixture(autouse=True)
def nothing_of_processes_left() -> Any:
    before, had_children = open_fds(), has_children()
    yield
    assert open_fds() <= before | new_fds_of_the_kernel(before)
    assert had_children or not has_children()  # a server of multiprocessing may live on


def has_children() -> bool:
    """Return whether this process has a child, or a zombie, which is gone then."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def new_fds_of_the_kernel(before: set[int]) -> set[int]:
    """Return those that a scheduler still has: its epolls, and how it is woken."""
    kinds = ("anon_inode:[event", "socket:")
    return {fd for fd in open_fds() - before if os.readlink(f"/proc/self/fd/{fd}").startswith(kinds)}


def end(process: Any) -> None:
    process.kill()
    process.wait()


def test_processes_run_beside_each_other(tmp_path: Path) -> None:
    meet = 'touch "$0"; while [ ! -e all ]; do sleep 0.01; done'
    runs = [dhaga.spawn(subprocess.run, ["sh", "-c", meet, str(n)], cwd=tmp_path) for n in range(8)]
    deadline = time.monotonic() + 30
    while len(os.listdir(tmp_path)) < 8 and time.monotonic() < deadline:
        dhaga.sleep(0.01)
    met = len(os.listdir(tmp_path))
    (tmp_path / "all").touch()
    assert [run.result().returncode for run in runs] == [0] * 8
    assert met == 8


def test_wait_names_the_process_and_returns_its_code() -> None:
    process = subprocess.Popen(["sh", "-c", "read line; exit 7"], stdin=PIPE)
    waiting = parked(process.wait)
    assert f"process {process.pid}" in repr(waiting)
    process.stdin.close()
    assert waiting.result() == 7


def test_several_wait_for_one_process() -> None:
    process = subprocess.Popen(LONG)
    waiting = [parked(process.wait, 30 if n % 2 else None) for n in range(6)]
    process.terminate()
    assert [each.result() for each in waiting] == [-signal.SIGTERM] * 6


def test_a_poll_finds_a_status_that_a_call_for_any_child_has_stored() -> None:
    with subprocess.Popen(["sh", "-c", "exit 3"]) as process:
        waiter = dhaga.spawn(process.wait)
        dhaga.sleep(0)  # it parks
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ChildProcessError):
            dhaga_os.waitpid(-1, os.WNOHANG)
        assert process.poll() == 3
        assert waiter.result() == 3


def test_wait_times_out_and_says_for_how_long_it_has_waited() -> None:
    def wait() -> None:
        with pytest.raises(subprocess.TimeoutExpired, match=r"timed out after 0\.05 seconds"):
            process.wait(timeout=0.05)

    process = subprocess.Popen(LONG)
    dhaga.spawn(wait).join()
    end(process)


def test_run_kills_what_takes_too_long() -> None:
    def run() -> None:
        seconds, said = 0.3, None
        while not said and seconds < 30:  # on a busy machine the child begins late
            with pytest.raises(subprocess.TimeoutExpired) as caught:
                subprocess.run(["sh", "-c", "echo begun; exec sleep 60"], stdout=PIPE, timeout=seconds)
            seconds, said = 4 * seconds, caught.value.stdout
        assert said == b"begun\n"

    dhaga.spawn(run).join()


def test_communicate_passes_more_than_pipes_hold_both_ways() -> None:
    text = "äöü" * 300_000
    done = dhaga.spawn(subprocess.run, ["cat"], input=text, capture_output=True, encoding="utf-8").result()
    assert done.stdout == text
    assert dhaga.spawn(subprocess.check_output, ["cat"], input=text.encode()).result() == text.encode()


def test_communicate_goes_on_after_a_timeout(tmp_path: Path) -> None:
    def talk() -> None:
        command = "echo a; while [ ! -e go ]; do sleep 0.01; done; echo b"
        process = subprocess.Popen(["sh", "-c", command], stdout=PIPE, stderr=PIPE, cwd=tmp_path)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.05)
        (tmp_path / "go").touch()
        assert process.communicate() == (b"a\nb\n", b"")

    dhaga.spawn(talk).join()


def test_pipes_park() -> None:
    with subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as process:
        reading = parked(process.stdout.readline)
        assert reading.is_alive()
        process.stdin.write("line\n")
        assert reading.result() == "line\n"


def test_a_pipe_that_is_full_parks_the_writer_until_it_is_closed() -> None:
    def write() -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            process.stdin.write(b"x" * 1_000_000)

    process = subprocess.Popen(LONG, stdin=PIPE)
    writing = parked(write)
    assert writing.is_alive()
    with contextlib.suppress(OSError):
        process.stdin.close()
    writing.join()
    end(process)


def test_closing_a_pipe_wakes_its_reader() -> None:
    def read() -> None:
        with pytest.raises(OSError):
            process.stdout.read()

    process = subprocess.Popen(LONG, stdout=PIPE)
    reading = parked(read)
    process.stdout.close()
    reading.join()
    end(process)


def test_the_pipe_that_a_child_inherits_still_blocks(tmp_path: Path) -> None:
    """``p1.stdout`` is the standard input of another: it must not find O_NONBLOCK there."""
    command = "while [ ! -e go ]; do sleep 0.01; done; sleep 0.2; echo late"
    first = subprocess.Popen(["sh", "-c", command], stdout=PIPE, cwd=tmp_path)
    reading = parked(first.stdout.peek)
    reading.cancel()
    second = subprocess.Popen(["cat"], stdin=first.stdout, stdout=PIPE)
    (tmp_path / "go").touch()
    assert dhaga.spawn(second.communicate).result() == (b"late\n", None)
    first.stdout.close()
    assert first.wait() == 0


@pytest.mark.parametrize("method", ["wait", "communicate"])
def test_a_cancel_leaves_the_process_as_it_is(method: str) -> None:
    process = subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    waiting = parked(getattr(process, method))
    waiting.cancel()
    settle()
    assert not waiting.is_alive()
    if method == "wait":
        assert process.poll() is None
        assert dhaga.spawn(process.communicate, b"still here").result() == (b"still here", b"")
    else:
        assert process.wait() == 0  # its input was closed, as communicate() does
        for pipe in (process.stdout, process.stderr):
            pipe.close()


def test_a_cancelled_run_kills_its_process() -> None:
    running = parked(subprocess.run, LONG)
    running.cancel()
    with pytest.raises(dhaga.Cancelled):
        running.result()


def test_a_command_that_cannot_run_says_so() -> None:
    def run() -> None:
        with pytest.raises(FileNotFoundError, match="no such program"):
            subprocess.run(["/no such program"])
        with pytest.raises(subprocess.CalledProcessError):
            subprocess.check_call(["false"])

    dhaga.spawn(run).join()


def test_the_shorter_functions_are_there() -> None:
    def all_of_them() -> None:
        assert subprocess.getoutput("echo out; echo err >&2") == "out\nerr"
        assert subprocess.getstatusoutput("exit 3") == (3, "")
        assert subprocess.call(["true"]) == 0

    dhaga.spawn(all_of_them).join()
    assert subprocess.list2cmdline is standard.list2cmdline
    assert subprocess.PIPE is PIPE
    assert isinstance(subprocess.Popen, type)
    assert issubclass(subprocess.Popen, standard.Popen)


def test_a_plain_thread_blocks() -> None:
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(subprocess.check_output(["echo", "thread"])))
    thread.start()
    thread.join()
    assert outcomes == [b"thread\n"]


def test_a_child_that_another_has_reaped_counts_as_ended() -> None:
    process = subprocess.Popen(["true"])
    os.waitpid(process.pid, 0)
    assert dhaga.spawn(process.wait).result() == 0


def test_without_a_pidfd_it_asks_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(pid: int) -> int:
        raise OSError(24, "Too many open files")

    for missing in (None, no_more):
        monkeypatch.setattr(child_wait, "pidfd_open", missing)
        process = subprocess.Popen(["sleep", "0.1"])
        others = []
        waiting = parked(process.wait)
        dhaga.spawn(others.append, 1).join()
        assert waiting.result() == 0
        process = subprocess.Popen(LONG)
        with pytest.raises(subprocess.TimeoutExpired):
            dhaga.spawn(process.wait, 0.05).result()
        end(process)


@pytest.mark.skipif(sys.platform != "linux", reason="names of the standard module that are private, on Linux")
def test_the_standard_module_has_what_is_relied_on() -> None:
    assert callable(standard.Popen._wait)  # type: ignore[attr-defined]
    assert standard._PopenSelector.__name__ in dir(__import__("selectors"))  # type: ignore[attr-defined]
    methods = vars(subprocess.Popen).values()
    twins = [each for each in methods if getattr(each, "__globals__", None) is subprocess.namespace]
    assert len(twins) > 20


@pytest.mark.slow
def test_a_thousand_processes_in_two_hundred_dhagas() -> None:
    def five() -> None:
        for _ in range(5):
            assert subprocess.run(["true"], stdout=PIPE).returncode == 0

    for each in [dhaga.spawn(five) for _ in range(200)]:
        each.join()


def test_what_the_standard_os_is_mocked_with_is_heard() -> None:
    assert prints("""
        import dhaga.monkey; dhaga.monkey.patch()
        import os, subprocess
        from unittest import mock
        process = subprocess.Popen(["true"])
        os.waitpid(process.pid, 0)
        with mock.patch("subprocess.os.waitpid", return_value=(process.pid, 7 << 8)):
            print(process.wait())
    """) == ["7"]


def test_a_handler_of_the_program_hears_of_children() -> None:
    assert prints("""
        import dhaga.monkey; dhaga.monkey.patch()
        import os, signal, subprocess, threading
        heard = []
        def handler(number, frame):
            heard.append(number)
        signal.signal(signal.SIGCHLD, handler)
        runs = [threading.Thread(target=subprocess.run, args=(["true"],)) for _ in range(5)]
        for run in runs: run.start()
        for run in runs: run.join()
        print(set(heard) == {signal.SIGCHLD})
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children reap themselves
        print(subprocess.Popen(["true"]).wait())
    """) == ["True", "0"]


def test_a_ctrl_c_reaches_the_child_and_the_waiter() -> None:
    outcome = (
        Program("""
        import dhaga, sys
        from dhaga import subprocess
        dhaga.spawn(dhaga.sleep, 0).join()
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        dhaga.spawn(print, "up")  # once the main code waits
        try:
            process.wait()
        except KeyboardInterrupt:
            process.kill()
            print("interrupted", process.wait())
    """)
        .interrupt_at("up")
        .outcome()
    )
    assert outcome.lines == ["interrupted -9"], outcome


ENDINGS = {
    "move_on_after": "with dhaga.move_on_after(0.1): call()",
    "fail_after": "with contextlib.suppress(TimeoutError), dhaga.fail_after(0.1): call()",
    "Timeout": "with contextlib.suppress(TimeoutError), dhaga.Timeout(0.1): call()",
    "cancel": "d = dhaga.spawn(call); dhaga.sleep(0.1); d.cancel(); d.join()",
    "children of a scope": "with dhaga.move_on_after(0.1) as scope: scope.spawn(call); scope.spawn(call)",
    "a failing sibling": "with contextlib.suppress(ExceptionGroup), dhaga.Scope() as s: s.spawn(call); s.spawn(fails)",
    "race": "dhaga.race(call, lambda: dhaga.sleep(0.1))",
}
CALLS = [
    "run({})",
    "run({}, capture_output=True)",
    "run({}, timeout=20)",
    "run({}, preexec_fn=lambda: time.sleep(0.2))",  # struck while it starts
    "call({})",
    "check_call({})",
    "check_output({})",
]


@pytest.mark.long("waits for the end of many commands")
def test_no_way_to_cut_a_command_short_leaves_a_zombie() -> None:
    """Each function that kills its process, each way to cancel it: no child is left, neither alive nor dead."""
    assert prints(f"""
        import contextlib, os, time
        import dhaga
        from dhaga import subprocess
        fails = lambda: [dhaga.sleep(0.1), 1 / 0]
        for expression in {CALLS}:
            call = eval("lambda: subprocess." + expression.format(["sleep", "30"]))
            for name, ending in {ENDINGS}.items():
                exec(ending)
                with contextlib.suppress(ChildProcessError):
                    print(expression, name, os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT))
        print("done")
    """) == ["done"]
