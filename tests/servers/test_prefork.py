"""Masters and workers of ``dhaga.servers``, as real processes that get real signals."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
from types import SimpleNamespace
from typing import Any, Self

import pytest

import dhaga
from dhaga.servers import TCPServer, _prefork
from dhaga.servers._prefork import Master, WorkerProcess, describe_exit
from dhaga.servers._worker_process import CLEANUP_SECONDS, DRAINED, EXIT_SECONDS
from tests.kit.prefork_programs import HANGING, Load, start, version, wait_within

# ---- the death of a worker


@pytest.mark.once
def test_a_killed_worker_is_replaced(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, workers=2) as running:
        first, other = running.begin(2)
        os.kill(first, signal.SIGKILL)
        running.wait_for(f"worker {first} (was killed by signal 9)")
        (another,) = running.serving()
        answers = {int(running.ask()) for _ in range(20)}
        assert answers <= {other, another}
        assert not running.zombies()
        running.signal(signal.SIGTERM)
        assert running.end() == 0


SECOND_FAILS = """
import os, pathlib
import dhaga
from dhaga.servers._worker_process import Worker

def fail(worker):
    while not os.path.exists("fail"):
        dhaga.sleep(0.001)
    raise TimeoutError("of a signal handler, for example")

number = len(list(pathlib.Path().glob("worker-*"))) + 1
pathlib.Path(f"worker-{number}").touch()
if number == 2:
    Worker.next_request = fail

def handler(sock, peer):
    sock.recv(100)
    sock.sendall(b"%d" % os.getpid())
"""


@pytest.mark.once
def test_a_worker_that_ends_with_an_oserror_is_replaced_and_ends_no_other(tmp_path: pathlib.Path) -> None:
    """The error of a worker is not the error of a fork in the master."""
    with start(tmp_path, SECOND_FAILS, workers=2) as running:
        first, second = running.begin(2)
        (tmp_path / "fail").touch()
        running.wait_for(f"worker {second} has failed")
        running.wait_for(f"worker {second} (ended with status 1); another")
        (third,) = running.serving()
        assert {int(running.ask()) for _ in range(20)} <= {first, third}
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        assert not any("be forked" in line or f"worker {first} was killed" in line for line in running.log)


DYING = """
import os
def handler(sock, peer):
    os._exit(7)
"""


@pytest.mark.slow
def test_workers_that_die_again_and_again_are_replaced_ever_later(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, DYING) as running:
        running.begin()
        for pause in ("0.1", "0.2", "0.4"):
            with pytest.raises(ConnectionError):
                running.ask()
            assert running.wait_for(r"ended with status 7; another one starts in (.*) s") == [pause]
        running.signal(signal.SIGTERM)
        assert running.end() == 0


@pytest.mark.once
def test_a_program_that_cannot_be_set_up_is_told_once_and_the_master_gives_up(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, "1 / 0", workers=3) as running:
        assert running.end() == 1
        assert sum("ZeroDivisionError" in line for line in running.log) == 1
        assert running.log[-1].endswith("ended with status 1 before it served: the master gives up")
        assert not any("listens" in line for line in running.log)


# ---- reload


def reloading_under_load(directory: pathlib.Path, times: int, **options: Any) -> None:
    with start(directory, version(0), workers=2, **options) as running:
        running.begin(2)
        with Load(running.ask) as load:
            for number in range(1, times + 1):
                (directory / "served.py").write_text(version(number))
                running.signal(signal.SIGHUP)
                running.serving(2)
                running.wait_for("worker (.*) ended with status 0", 2)
                assert running.ask() == b"%d" % number
        assert not load.errors
        assert len(load.answers) > times
        assert set(load.answers) <= {b"%d" % number for number in range(times + 1)}
        assert not running.zombies()
        running.signal(signal.SIGTERM)
        assert running.end() == 0


@pytest.mark.once
def test_a_reload_loses_no_connection(tmp_path: pathlib.Path) -> None:
    reloading_under_load(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"reuse_port": True}, {"threads": 2}])
def test_many_reloads_lose_no_connection(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    reloading_under_load(tmp_path, 6, **options)


@pytest.mark.once
def test_the_old_workers_stay_when_the_new_ones_cannot_come_up(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version("old"), workers=2) as running:
        running.begin(2)
        with wait_within(running) as sock:
            (tmp_path / "served.py").write_text("import no_such_module")
            running.signal(signal.SIGHUP)
            running.wait_for(
                "ended with status 1 before it served: (the old workers keep serving, the reload is abandoned)"
            )
            assert any("no_such_module" in line for line in running.log)
            assert running.ask() == b"old"
            (tmp_path / "served.py").write_text(version("new"))
            running.signal(signal.SIGHUP)
            running.serving(2)
            running.wait_for("worker (.*) ended with status 0")
            assert running.ask() == b"new"
            sock.sendall(b"go on")
            assert sock.recv(100) == b"old"
        running.signal(signal.SIGTERM)
        assert running.end() == 0


@pytest.mark.once
def test_a_reload_that_hangs_is_replaced_by_the_next(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version("old")) as running:
        running.begin()
        (tmp_path / "served.py").write_text(HANGING)
        running.signal(signal.SIGHUP)
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"importing\n"
        assert running.ask() == b"old"
        (tmp_path / "served.py").write_text(version("new"))
        running.signal(signal.SIGHUP)
        running.serving()
        running.wait_for("worker (.*) ended with status 0")
        assert running.ask() == b"new"
        running.signal(signal.SIGTERM)
        assert running.end() == 0


SLOW = """
import time, dhaga
time.sleep(0.05)
def handler(sock, peer):
    sock.recv(100)
    dhaga.sleep(0.02)
    sock.sendall(b"done")
"""


@pytest.mark.once
def test_reloads_one_before_the_other_has_come_about_lose_no_connection(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, SLOW, workers=3) as running:
        running.begin(3)
        with Load(running.ask, threads=12) as load:
            for _ in range(5):
                running.signal(signal.SIGHUP)
                running.serving()  # the first of the new ones: the others have not come
        running.signal(signal.SIGHUP)
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        assert load.answers and not load.errors
        assert not any("cannot serve" in line for line in running.log)


@pytest.mark.once
def test_a_stop_lets_the_requests_finish_that_a_reload_has_left(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version("old")) as running:
        (old,) = running.begin()
        with wait_within(running) as sock:
            running.signal(signal.SIGHUP)
            running.serving()
            running.signal(signal.SIGTERM)
            running.wait_for("ends the workers with (SIGTERM)")
            running.wait_for("ended with status 0")  # the new one, which got its signal with the old one
            sock.sendall(b"go on")
            assert sock.recv(100) == b"old"
        assert running.end() == 0
        assert f"worker {old} ended with status 0" in running.log


# ---- in this process


def test_with_reuse_port_each_worker_listens_at_each_port_and_unix_sockets_are_shared(tmp_path: pathlib.Path) -> None:
    master = Master(
        lambda: TCPServer,
        [("127.0.0.1", 0), tmp_path / "socket"],
        workers=3,
        reuse_port=True,
    )
    master.listeners = master.listen()
    for first, second in zip(master.listeners, master.listeners[1:], strict=False):
        assert first[0] is not second[0] and first[0].getsockname() == second[0].getsockname()
        assert first[1] is second[1]
    master.close_listeners()


def test_a_master_runs_while_there_are_no_dhagas() -> None:
    alive = dhaga.spawn(dhaga.sleep, 1000)
    with pytest.raises(RuntimeError, match="while this process has no dhagas"):
        Master(lambda: TCPServer, ("127.0.0.1", 0)).run()
    alive.cancel()
    dhaga.sleep(0)


@pytest.mark.parametrize("options", [{"workers": 0}, {"threads": 0}])
def test_a_master_needs_workers_and_threads(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="one or more"):
        Master(lambda: TCPServer, ("127.0.0.1", 0), **options)


# ---- deadlines, by a clock that stands still


class Told(WorkerProcess):
    """A worker without a process: it notes the signals that it gets."""

    def __init__(self, pipe: socket.socket) -> None:
        super().__init__(pid=-1, slot=0, pipe=pipe)
        self.signals: list[int] = []

    def signal(self, number: int) -> None:
        self.signals.append(number)


class Hour:
    """The clock of a master, and its only worker, which was told to end at 0 o'clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, grace: float) -> None:
        self.now = 0.0
        monkeypatch.setattr(_prefork, "originals", SimpleNamespace(monotonic=lambda: self.now))
        self.pipe, pipe = socket.socketpair()
        self.worker = Told(pipe)
        self.master = Master(lambda: TCPServer, ("127.0.0.1", 0), grace=grace)
        self.master.workers = {-1: self.worker}
        self.master.drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.close()
        self.worker.pipe.close()

    def drained(self, at: float) -> None:
        """Have the worker report at this time that it exits."""
        self.now = at
        self.pipe.send(DRAINED)
        self.master.on_pipe_readable(self.worker)

    def killed_at(self) -> float:
        """Return when the worker is killed: the master sleeps until then, and no longer."""
        pause = self.master.poll_timeout()
        assert pause is not None
        self.master.kill_overdue()
        assert self.worker.signals == [signal.SIGTERM]
        self.now += pause
        self.master.kill_overdue()
        assert self.worker.signals == [signal.SIGTERM, signal.SIGKILL]
        assert self.master.poll_timeout() is None
        return self.now


@pytest.mark.logs
def test_a_worker_that_does_not_drain_is_killed_after_the_grace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Hour(monkeypatch, grace=5) as hour:
        assert hour.killed_at() == 5 + 2 * CLEANUP_SECONDS
    assert "has not ended in time and is killed" in caplog.text


@pytest.mark.logs
@pytest.mark.parametrize(
    ("at", "killed_at"), [(5.5, 5.5 + EXIT_SECONDS), (0.0, max(EXIT_SECONDS, 5 + 2 * CLEANUP_SECONDS))]
)
def test_a_drained_worker_has_ten_seconds_for_its_exit_or_what_is_left_of_the_grace(
    monkeypatch: pytest.MonkeyPatch, at: float, killed_at: float
) -> None:
    assert EXIT_SECONDS == 10
    with Hour(monkeypatch, grace=5) as hour:
        hour.drained(at)
        assert hour.killed_at() == killed_at
    with Hour(monkeypatch, grace=30) as hour:
        hour.drained(at)
        assert hour.killed_at() == 30 + 2 * CLEANUP_SECONDS


def test_an_end_is_told_in_words() -> None:
    assert describe_exit(subprocess.run(["sh", "-c", "exit 3"]).returncode << 8) == "ended with status 3"
    assert describe_exit(9) == "was killed by signal 9 (Killed)"
