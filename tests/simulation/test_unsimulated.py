"""Calls that leave the simulation are errors that name the call and the ways out, unless they are allowed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dhaga._kernel import originals
from dhaga.simulation import NotSimulated, Simulation


def connect() -> None:
    with socket.socket() as client:
        client.connect(("93.184.216.34", 9))


def send() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("93.184.216.34", 9))


def start_process() -> None:
    multiprocessing.get_context("spawn").Process(target=int).start()


def open_fifo() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fifo")
        os.mkfifo(path)
        os.open(path, os.O_RDONLY)


def start_thread() -> None:
    originals.Thread(target=int).start()


CALLS: dict[str, tuple[Callable[[], object], str, str]] = {
    "a process": (lambda: subprocess.run([sys.executable, "-c", ""]), "subprocess.Popen(", "processes"),
    "a fork": (os.fork, "os.fork(", "processes"),
    "a spawned process": (start_process, "fork_exec(", "processes"),
    "a FIFO": (open_fifo, "open(", "fifos"),
    "a shell": (lambda: os.system("true"), "os.system(", "processes"),
    "a connection": (connect, "connect(('93.184.216.34', 9))", "network"),
    "a datagram": (send, "connect(('93.184.216.34', 9))", "network"),
    "a look-up": (lambda: socket.getaddrinfo("example.com", 80), "getaddrinfo('example.com'", "network"),
    "an OS thread": (start_thread, "start_", "threads"),
    "a timer": (lambda: signal.setitimer(signal.ITIMER_REAL, 1), "signal.setitimer(", "signals"),
    "an alarm": (lambda: signal.alarm(1), "signal.alarm(1)", "signals"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_not_simulated_is_an_error(name: str) -> None:
    call, text, kind = CALLS[name]
    with pytest.raises(NotSimulated) as caught, Simulation(0):
        call()
    assert str(caught.value).startswith(text)
    assert f"is not simulated, because {'' if kind != 'network' else 'a real address'}" in str(caught.value)
    assert f"allow=[{kind!r}]" in str(caught.value) and f"--allow {kind}" in str(caught.value)


def test_a_fifo_that_waits_for_nobody_is_opened(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "fifo")
    with Simulation(0):
        ends = os.open(path, os.O_RDONLY | os.O_NONBLOCK), os.open(path, os.O_RDWR)
    for fd in ends:
        os.close(fd)


@pytest.mark.parametrize("name", ["a shell", "a timer"])
def test_an_allowed_call_is_made(name: str) -> None:
    call, _, kind = CALLS[name]
    with Simulation(0, allow=[kind]):
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_timer_may_be_turned_off() -> None:
    with Simulation(0):
        assert signal.alarm(0) == 0
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_socketpair_and_a_unix_socket_of_the_program_itself_work(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with pytest.raises(NotSimulated, match=r"socket\.connect\("), Simulation(0):
        near, far = socket.socketpair()
        threading.Thread(target=lambda: far.sendall(far.recv(9))).start()
        near.sendall(b"ping")
        assert near.recv(9) == b"ping"
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(path)
            server.listen()
            client.connect(path)
            server.accept()[0].close()
            assert client.recv(9) == b""
        near.close()
        far.close()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("/run/another")


def test_other_threads_and_times_are_left_alone() -> None:
    with Simulation(0):
        pass
    assert subprocess.run([sys.executable, "-c", ""]).returncode == 0
