"""``dhaga.processes`` and ``dhaga.services``: masters and workers, as real processes that get real signals."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
from typing import Any

import pytest

import dhaga
from dhaga.processes import Master, how_it_ended
from dhaga.servers import TCPServer
from tests.masters import Load, Running

PROGRAM = """
import logging, sys
from dhaga.processes import Master
from dhaga.servers import TCPServer

logging.basicConfig(level=logging.INFO, format="%(message)s")

def set_up():
    import served
    return lambda where: TCPServer(served.handler, where)

sys.exit(Master(set_up, ("127.0.0.1", 0), {options}).run())
"""
VERSION = """
def handler(sock, peer):
    if sock.recv(100) == b"wait":
        sock.sendall(b"waiting")
        sock.recv(100)
    sock.sendall(b"{version}")
"""
PID = """
import os
def handler(sock, peer):
    sock.recv(100)
    sock.sendall(b"%d" % os.getpid())
"""


def start(directory: pathlib.Path, served: str = PID, **options: Any) -> Running:
    text = ", ".join(f"{name}={value!r}" for name, value in {"grace": 20, **options}.items())
    (directory / "program.py").write_text(PROGRAM.format(options=text))
    (directory / "served.py").write_text(served)
    return Running(directory, "program.py")


def version(number: int | str) -> str:
    return VERSION.format(version=number)


def wait_within(running: Running) -> socket.socket:
    """Return a connection whose handler waits for more."""
    sock = running.client()
    sock.sendall(b"wait")
    assert sock.recv(100) == b"waiting"
    return sock


# ---- the end


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
                running.wait_for("master .* ends the workers by (.*)")
            assert sock.recv(100) == b""
        assert running.end() == 0


@pytest.mark.once
def test_what_does_not_finish_in_time_is_cancelled(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, version(1), grace=0.1) as running:
        running.begin()
        with wait_within(running) as sock:
            running.signal(signal.SIGTERM)
            assert sock.recv(100) == b""
        assert running.end() == 0


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
            running.wait_for("worker (.*) drains, as the master has died", 2)
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


HANGING = """
import os, time
print("importing", flush=True)
time.sleep(1000)
"""
OUTLIVING = version(1) + "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"


@pytest.mark.slow
def test_a_worker_that_would_outlive_a_dead_master_is_ended_by_an_alarm(tmp_path: pathlib.Path) -> None:
    with start(tmp_path, OUTLIVING, grace=0.1) as running:
        running.begin()
        running.signal(signal.SIGKILL)
        running.wait_for("worker (.*) drains, as the master has died")
        assert running.end() == -signal.SIGKILL


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
            running.wait_for("ended with status 1 before it served: (the old workers go on, nothing is reloaded)")
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


# ---- in this process


def test_with_reuse_port_each_worker_listens_at_each_port_and_unix_sockets_are_shared(tmp_path: pathlib.Path) -> None:
    master = Master(
        lambda: TCPServer,  # type: ignore[arg-type, return-value]
        [("127.0.0.1", 0), tmp_path / "socket"],
        workers=3,
        reuse_port=True,
    )
    master.listeners = master.listen()
    for first, second in zip(master.listeners, master.listeners[1:], strict=False):
        assert first[0] is not second[0] and first[0].getsockname() == second[0].getsockname()
        assert first[1] is second[1]
    master.close_listeners()


def test_a_master_runs_before_anything_has_parked() -> None:
    dhaga.spawn(lambda: None).join()
    with pytest.raises(RuntimeError, match="before anything has parked"):
        Master(lambda: TCPServer, ("127.0.0.1", 0)).run()  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("options", [{"workers": 0}, {"threads": 0}])
def test_a_master_needs_workers_and_threads(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="one or more"):
        Master(lambda: TCPServer, ("127.0.0.1", 0), **options)  # type: ignore[arg-type, return-value]


def test_an_end_is_told_in_words() -> None:
    assert how_it_ended(subprocess.run(["sh", "-c", "exit 3"]).returncode << 8) == "ended with status 3"
    assert how_it_ended(9) == "was killed by signal 9 (Killed)"
