"""What serves in one process, where none forks. It runs on every platform, Windows included."""

from __future__ import annotations

import _thread
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._kernel.platform import windows
from dhaga._kernel.platform.system import system
from dhaga.servers import TCPServer
from dhaga.servers._one_process import OneProcess
from tests.kit.scripts import Program

LOCAL = ("127.0.0.1", 0)
PATIENCE = 60


@pytest.fixture(autouse=True)
def no_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the objects of the tests in the collections to come."""
    monkeypatch.setattr("gc.freeze", lambda: None)


def serving(client: Callable[[OneProcess, Any], Any], caplog: Any, **options: Any) -> tuple[int, Any]:
    """Serve an upper-casing program while a dhaga runs ``client``. Returns: the status, and the client's result."""
    caplog.set_level(logging.INFO, "dhaga")

    def answer(sock: Any, peer: Any) -> None:
        while data := sock.recv(100):
            sock.sendall(data.upper())

    def setup() -> Callable[[Any], TCPServer]:
        asking.append(dhaga.spawn(run_client))
        return lambda where: TCPServer(answer, where)

    def run_client() -> Any:
        while not (found := re.search(r"listens at http://127.0.0.1:(\d+)", caplog.text)):
            dhaga.sleep(0.01)
        return client(one, ("127.0.0.1", int(found[1])))

    asking: list[Any] = []
    one = OneProcess(setup, LOCAL, scheme="http", **options)
    former = signal.getsignal(signal.SIGINT)
    status = one.run()
    assert signal.getsignal(signal.SIGINT) is former
    return status, asking[0].result(PATIENCE)


def ask(address: Any) -> bytes:
    with socket.create_connection(address) as sock:
        sock.sendall(b"hello")
        return bytes(sock.recv(100))


def test_ctrl_c_ends_it_at_once(caplog: Any) -> None:
    def client(one: OneProcess, address: Any) -> bytes:
        with socket.create_connection(address) as sock:
            sock.sendall(b"hello")
            assert sock.recv(100) == b"HELLO"
            threading.Thread(target=_thread.interrupt_main).start()
            return bytes(sock.recv(100))

    assert serving(client, caplog, grace=1000) == (0, b"")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_drain_lets_what_is_under_way_finish(caplog: Any, threads: int) -> None:
    def client(one: OneProcess, address: Any) -> bytes:
        with socket.create_connection(address) as sock:
            sock.sendall(b"hello")
            assert sock.recv(100) == b"HELLO"
            one.request_stop(system.DRAIN_SIGNAL, None)
            while not all(server.stopping for server in one.servers):
                dhaga.sleep(0.01)
            sock.sendall(b"on")
            return bytes(sock.recv(100))

    assert serving(client, caplog, grace=1000, threads=threads) == (0, b"ON")


@pytest.mark.logs
def test_a_program_that_does_not_load_is_logged_and_the_status_is_1(caplog: Any) -> None:
    def setup() -> Any:
        raise LookupError("no program")

    assert OneProcess(setup, LOCAL).run() == 1
    assert "cannot serve" in caplog.text and "LookupError: no program" in caplog.text


def test_a_server_that_ends_by_itself_ends_the_process(caplog: Any) -> None:
    def client(one: OneProcess, address: Any) -> bytes:
        answered = ask(address)
        one.servers[0].stop()
        return answered

    assert serving(client, caplog) == (1, b"HELLO")


EXITING = """
import sys
import dhaga
from dhaga.servers import TCPServer
from dhaga.servers._one_process import OneProcess

def handler(sock, peer):
    if sock.recv(100) == b"exit":
        sys.exit(3)
    sock.sendall(b"begun")
    print(sock.recv(100).decode())

def setup():
    dhaga.spawn(ask)
    return lambda where: TCPServer(handler, where)

def ask():
    while not one.servers or not one.servers[0].addresses:
        dhaga.sleep(0.01)
    with dhaga.socket.create_connection(one.servers[0].address) as first:
        first.sendall(b"begin")
        assert first.recv(100) == b"begun"
        with dhaga.socket.create_connection(one.servers[0].address) as second:
            second.sendall(b"exit")
            assert second.recv(100) == b""
        first.sendall(b"finished")

one = OneProcess(setup, ("127.0.0.1", 0), grace=1000)
one.run()
"""


def test_an_exit_drains_before_it_ends_the_process() -> None:
    outcome = Program(EXITING).outcome()
    assert (outcome.status, outcome.out) == (3, "finished\n"), outcome.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--workers", "2"], "--workers cannot be given on this platform: no process forks; start several at ports of"),
        (["--reuse-port"], "--reuse-port cannot be given on this platform: no process shares a port with another"),
        (["--bind", "unix:x"], "--bind unix: cannot be given on this platform: there are no Unix sockets; give HOST:"),
    ],
)
def test_what_needs_forks_or_unix_sockets_is_an_error_at_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: list[str], text: str
) -> None:
    from dhaga._cli import serve

    monkeypatch.setattr(system, "MISSING_OPTIONS", windows.MISSING_OPTIONS)
    with pytest.raises(SystemExit) as end:
        serve.main([*arguments, "module:app"])
    assert end.value.code == 2
    assert text in " ".join(capsys.readouterr().err.split())


APP = """
import _thread, threading

def app(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/end":
        threading.Thread(target=_thread.interrupt_main).start()
    return [threading.Thread.__module__.encode()]
"""

SERVE = """
import sys
from dhaga._kernel.platform.system import system
system.FORKS = False
from dhaga.__main__ import main
sys.exit(main(["serve", "--bind", "127.0.0.1:0", "--no-require-patch", "app:app"]))
"""


@pytest.mark.long("starts a process")
def test_the_command_serves_an_app_until_ctrl_c(tmp_path: Path) -> None:
    pytest.importorskip("httptools")
    (tmp_path / "app.py").write_text(APP)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=tmp_path,
        text=True,
    ) as process:
        log = ""
        while not (found := re.search(r"listens at http://127.0.0.1:(\d+)", log)):
            log += (line := process.stderr.readline())
            assert line, log
        for path in ("/", "/end"):
            with socket.create_connection(("127.0.0.1", int(found[1]))) as sock:
                sock.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                answer = b""
                while data := sock.recv(1000):
                    answer += data
            assert answer.startswith(b"HTTP/1.") and b" 200 OK" in answer and answer.endswith(b"dhaga.threading")
        assert (process.wait(PATIENCE), process.stderr.read()) == (0, "")
