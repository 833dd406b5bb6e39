"""Worker processes: they drain, end at once or are killed, and end with their master."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import signal
import socket
from collections.abc import Iterator

import pytest

import dhaga.socket
from dhaga.servers import TCPServer
from dhaga.servers._worker_process import DRAINED, Worker
from dhaga.testing import settle
from tests.kit.parking import parked
from tests.kit.prefork_programs import HANGING, Running, start, version, wait_within
from tests.kit.servers import client, hold, serving


@pytest.mark.once
def test_sigterm_drains_what_is_under_way(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version(1), workers=2) as running:
        running.begin(2)
        with wait_within(running) as sock:
            running.signal(signal.SIGTERM)
            running.wait_for("worker (.*) ended with status 0")
            with pytest.raises(ConnectionRefusedError):
                running.ask()
            sock.sendall(b"go on")
            assert sock.recv(100) == b"1"
        assert running.end() == 0


@pytest.mark.once
@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT,)])
def test_a_second_sigterm_or_ctrl_c_ends_at_once(tmp_path: pathlib.Path, numbers: tuple[int, ...]) -> None:
    with start(tmp_path, version(1), grace=1000) as running:
        running.begin()
        with wait_within(running) as sock:
            for number in numbers:  # one after the other: two of a kind may come as one
                running.signal(number)
                running.wait_for("master .* ends the workers with (.*)")
            assert sock.recv(100) == b""
        assert running.end() == 0


@pytest.mark.once
def test_a_sigterm_to_the_whole_process_group_drains(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version(1), grace=1000) as running:
        running.begin()
        with wait_within(running) as sock:
            os.killpg(running.process.pid, signal.SIGTERM)
            running.wait_for("master .* ends the workers with (.*)")  # the worker gets its second one
            sock.sendall(b"go on")
            assert sock.recv(100) == b"1"
        assert running.end() == 0


@pytest.mark.once
@pytest.mark.parametrize("grace", [1e7, 1e300, math.inf])
def test_any_grace_drains(tmp_path: pathlib.Path, grace: float) -> None:
    with start(tmp_path, version(1), grace=grace) as running:
        running.begin()
        with wait_within(running) as sock:
            running.signal(signal.SIGTERM)
            running.wait_for("master .* ends the workers with (.*)")
            sock.sendall(b"go on")
            assert sock.recv(100) == b"1"
        assert running.end() == 0


def test_a_worker_that_drains_ignores_a_second_sigterm_but_not_ctrl_c() -> None:
    service = Worker(lambda: TCPServer, [], threads=1, grace=1000)
    with serving(hold) as server, client(server):
        settle()
        service.servers = [server]
        draining = parked(service.stop_servers, signal.SIGTERM)
        for request in (signal.SIGTERM, None):
            service.stop_requests.put_nowait(request)
        settle()
        assert len(server.connections) == 1
        service.stop_requests.put_nowait(signal.SIGINT)
        draining.result()
        assert server.ended


@pytest.mark.once
def test_what_does_not_finish_in_time_is_cancelled(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version(1), grace=0.1) as running:
        running.begin()
        with wait_within(running) as sock:
            running.signal(signal.SIGTERM)
            assert sock.recv(100) == b""
        assert running.end() == 0


LOADED = """
import gc, weakref
class Loaded:
    pass
loaded, garbage = Loaded(), Loaded()
garbage.me = garbage
seen = weakref.ref(garbage)
del garbage
frozen_before = gc.get_freeze_count()
def handler(sock, peer):
    sock.recv(100)
    sock.sendall(repr((frozen_before, gc.get_freeze_count() > 1000, seen())).encode())
"""


@pytest.mark.once
def test_collections_leave_out_what_the_program_has_loaded_but_not_its_garbage(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, LOADED) as running:
        running.begin()
        assert running.ask() == b"(0, True, None)"


# ---- several OS threads

THREADED = """
import threading
from dhaga import offload, spawn
from dhaga._kernel.process.current_scheduler import current_scheduler

def leave():
    raise SystemExit(5)

OPTIONS = {"max_connections": 1}
def handler(sock, peer):
    sock.sendall(threading.current_thread().name.encode())
    order = sock.recv(100)
    if order == b"exit":
        raise SystemExit(5)
    if order == b"group":
        raise BaseExceptionGroup("of a task group", [SystemExit(5)])
    if order == b"spawn":
        spawn(leave).join()
    if order == b"stop":
        offload(current_scheduler().stop)
    sock.sendall(b"done")
"""


@contextlib.contextmanager
def in_each_thread(running: Running) -> Iterator[dict[bytes, socket.socket]]:
    """Give connections to both OS threads of a worker, by the names of the threads."""
    with running.client() as first, running.client() as second:
        yield {sock.recv(100): sock for sock in (first, second)}


@pytest.mark.once
def test_sigterm_drains_every_thread(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, THREADED, threads=2) as running:
        running.begin()
        with in_each_thread(running) as connections:
            assert set(connections) == {b"MainThread", b"thread-2"}
            running.signal(signal.SIGTERM)
            running.wait_for("master .* ends the workers with (.*)")
            for sock in connections.values():
                sock.sendall(b"go on")
                assert sock.recv(100) == b"done"
        assert running.end() == 0


@pytest.mark.once
def test_ctrl_c_ends_every_thread_at_once(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, THREADED, threads=2, workers=2, grace=1000) as running:
        running.begin(2)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(running.client()) for _ in range(4)]
            names = sorted(sock.recv(100) for sock in clients)
            running.signal(signal.SIGINT)
            assert [sock.recv(100) for sock in clients] == [b""] * 4
        assert names == [b"MainThread", b"MainThread", b"thread-2", b"thread-2"]
        assert running.end() == 0


@pytest.mark.once
def test_a_stopped_scheduler_ends_the_worker(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, THREADED, threads=2) as running:
        (pid,) = running.begin()
        with in_each_thread(running) as connections:
            connections[b"thread-2"].sendall(b"stop")
            running.wait_for(f"worker {pid} ended with (status 1; another one starts)")
        running.serving()
        running.signal(signal.SIGTERM)
        assert running.end() == 0


@contextlib.contextmanager
def two_in_each_thread(running: Running) -> Iterator[dict[bytes, list[socket.socket]]]:
    """Fill a worker of two OS threads and ``TWO_EACH`` connections each. Yields: each thread's connections."""
    connections: dict[bytes, list[socket.socket]] = {}
    with contextlib.ExitStack() as stack:
        for sock in [stack.enter_context(running.client()) for _ in range(4)]:
            connections.setdefault(sock.recv(100), []).append(sock)
        yield connections


TWO_EACH = THREADED.replace('"max_connections": 1', '"max_connections": 2')


@pytest.mark.once
@pytest.mark.parametrize(
    ("thread", "order"),
    [(b"MainThread", b"exit"), (b"thread-2", b"exit"), (b"MainThread", b"group"), (b"MainThread", b"spawn")],
)
def test_an_exit_drains_the_worker_and_another_worker_serves_meanwhile(
    tmp_path: pathlib.Path, thread: bytes, order: bytes
) -> None:
    with start(tmp_path, TWO_EACH, threads=2, grace=1000) as running:
        (pid,) = running.begin()
        with two_in_each_thread(running) as connections:
            connections[thread].pop().sendall(order)
            running.wait_for(f"worker {pid} drains, because its program has (exited)")
            running.serving()
            (second,) = connections.pop(thread)
            second.sendall(order)  # a second exit does not end the drain
            assert second.recv(100) == (b"done" if order == b"spawn" else b"")
            for sock in connections.popitem()[1]:
                sock.sendall(b"go on")
                assert sock.recv(100) == b"done"
        running.wait_for(f"worker {pid} ended with status (5)$")
        running.signal(signal.SIGTERM)
        assert running.end() == 0


@pytest.mark.once
def test_a_worker_that_drains_after_an_exit_is_ended_by_ctrl_c(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, THREADED, threads=2, grace=1000) as running:
        (pid,) = running.begin()
        with in_each_thread(running) as connections:
            connections[b"MainThread"].sendall(b"exit")
            running.wait_for(f"worker {pid} drains, because its program has (exited)")
            running.signal(signal.SIGINT)
            assert connections[b"thread-2"].recv(100) == b""
        running.wait_for(f"worker {pid} ended with status (5)$")
        assert running.end() == 0


@pytest.mark.once
def test_an_exit_ends_the_other_requests_after_the_grace_period(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, THREADED, threads=2, grace=0.1) as running:
        (pid,) = running.begin()
        with in_each_thread(running) as connections:
            connections[b"thread-2"].sendall(b"exit")
            assert connections[b"MainThread"].recv(100) == b""
        running.wait_for(f"worker {pid} ended with status (5)$")


BLOCKING = """
import time
def handler(sock, peer):
    sock.sendall(b"blocks")
    time.sleep(1000)
"""


@pytest.mark.slow
def test_a_worker_that_does_not_end_in_time_is_killed(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, BLOCKING, grace=0.1) as running:
        (pid,) = running.begin()
        assert running.ask() == b"blocks"
        running.signal(signal.SIGTERM)
        running.wait_for(f"worker {pid} has not ended in time and is (killed)")
        assert running.end() == 0


@pytest.mark.once
def test_workers_end_when_their_master_is_killed(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version(1), workers=2) as running:
        running.begin(2)
        with wait_within(running) as sock:
            running.signal(signal.SIGKILL)
            running.wait_for("worker (.*) drains, because the master has died", 2)
            sock.sendall(b"go on")
            assert sock.recv(100) == b"1"
        assert running.end() == -signal.SIGKILL  # at the end of the log no worker is left that could write to it


@pytest.mark.once
def test_a_worker_that_still_imports_ends_with_its_master(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, HANGING) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"importing\n"
        running.signal(signal.SIGKILL)
        assert running.end() == -signal.SIGKILL


OUTLIVING = version(1) + "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"


@pytest.mark.slow
def test_a_worker_that_would_outlive_a_dead_master_is_ended_by_an_alarm(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, OUTLIVING, grace=0.1) as running:
        running.begin()
        running.signal(signal.SIGKILL)
        running.wait_for("worker (.*) drains, because the master has died")
        assert running.end() == -signal.SIGKILL


@pytest.mark.parametrize(("left", "alarm"), [(3, 11), (25, 25)])
def test_a_drained_worker_that_hangs_is_killed_even_if_its_master_is_dead(
    monkeypatch: pytest.MonkeyPatch, left: int, alarm: int
) -> None:
    """An alarm does it, after the time for the exit, or what is left of the time for the drain."""
    alarms: list[int] = []

    def set_alarm(seconds: int) -> int:
        alarms.append(seconds)
        return left

    monkeypatch.setattr(signal, "alarm", set_alarm)
    service = Worker(lambda: TCPServer, [], threads=1, grace=30)
    master, pipe = dhaga.socket.socketpair()
    with master, pipe:
        service.begin_exit(pipe)
        assert master.recv(10) == DRAINED
        master.close()
        service.begin_exit(pipe)  # the master has died
    assert alarms == [0, alarm, 0, alarm]
