"""Children are waited for by dhagas while others run."""

from __future__ import annotations

import os as standard
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import dhaga
from dhaga import os, subprocess
from dhaga._iowait import child_wait
from dhaga.testing import settle
from tests.kit.parking import parked
from tests.kit.pipes import ended


def exiting(status: int, after: float = 0.0) -> int:
    """Start a child that ends with a status."""
    return standard.posix_spawn("/bin/sh", ["sh", "-c", f"sleep {after}; exit {status}"], standard.environ)


def ending_at_a_close(status: int) -> tuple[int, int]:
    """Start a child that ends once an fd is closed. Returns: its PID and the fd."""
    reader, writer = standard.pipe()
    pid = standard.posix_spawn(
        "/bin/sh",
        ["sh", "-c", f"read line; exit {status}"],
        standard.environ,
        file_actions=[(standard.POSIX_SPAWN_DUP2, reader, 0)],
    )
    standard.close(reader)
    return pid, writer


def test_waitpid_parks_until_the_child_ends() -> None:
    pid, fd = ending_at_a_close(3)
    waiting = parked(os.waitpid, pid, 0)
    assert f"process {pid}" in repr(waiting)
    standard.close(fd)
    assert waiting.result() == (pid, ended(3))
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_wait_takes_any_child_and_each_status_once() -> None:
    pids = {exiting(n, 0.01 * n): ended(n) for n in range(4)}
    waiting = [parked(os.wait) for _ in pids]
    assert dict(each.result() for each in waiting) == pids


def test_a_cancelled_wait_leaves_the_status_to_others() -> None:
    pid, fd = ending_at_a_close(5)
    for wait in (os.wait, lambda: os.waitpid(pid, 0), lambda: os.wait3(0)):
        waiting = parked(wait)
        waiting.cancel()
        settle()
        assert not waiting.is_alive()
    standard.close(fd)
    assert dhaga.spawn(os.wait4, pid, 0).result()[:2] == (pid, ended(5))


def test_waitid_waits_for_an_event_and_may_leave_it() -> None:
    pid = exiting(6, 0.05)
    seen = dhaga.spawn(os.waitid, os.P_ALL, 0, os.WEXITED | os.WNOWAIT).result()
    assert (seen.si_pid, seen.si_status) == (pid, 6)
    assert dhaga.spawn(os.waitid, os.P_PID, pid, os.WEXITED).result().si_pid == pid


def test_waitpid_sees_a_child_stop() -> None:
    pid = exiting(0, 60)
    waiting = parked(os.waitpid, pid, os.WUNTRACED)
    standard.kill(pid, 19)
    assert os.WIFSTOPPED(waiting.result()[1])
    standard.kill(pid, 9)
    assert os.WTERMSIG(dhaga.spawn(os.waitpid, pid, 0).result()[1]) == 9


def wait_for_zombie(pid: int) -> None:
    standard.waitid(standard.P_PID, pid, standard.WEXITED | standard.WNOWAIT)


@pytest.mark.parametrize("ask", [lambda: os.waitpid(-1, os.WNOHANG), lambda: os.wait3(os.WNOHANG)])
def test_a_call_for_any_child_leaves_the_status_of_one_that_is_awaited(ask: Callable[[], tuple[Any, ...]]) -> None:
    """A handler of SIGCHLD that reaps all children runs before a wait goes on; with threads it comes too late."""
    pid, fd = ending_at_a_close(3)
    waiting = parked(os.waitpid, pid, 0)
    standard.close(fd)
    wait_for_zombie(pid)
    with suppress(ChildProcessError):  # there may be other children
        assert ask()[0] != pid
    assert waiting.result() == (pid, ended(3))
    assert not child_wait.awaited and not child_wait.collected


def test_a_status_that_was_collected_outlives_the_cancel_of_its_wait() -> None:
    process = subprocess.Popen(["sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE)
    waiting = parked(process.wait)
    assert process.stdin is not None
    process.stdin.close()
    wait_for_zombie(process.pid)
    waiting.cancel()
    with suppress(ChildProcessError):
        assert os.waitpid(-1, os.WNOHANG)[0] != process.pid
    with pytest.raises(dhaga.Cancelled):
        waiting.result()
    assert process.returncode == 3 and not child_wait.collected


def test_what_was_collected_of_a_former_child_is_not_a_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_zombie(pid := exiting(5))
    monkeypatch.setitem(child_wait.collected, pid, (pid, 0, None))
    assert os.waitpid(pid, 0) == (pid, ended(5))
