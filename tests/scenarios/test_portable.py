"""Features of every platform, Windows included: `make test-windows` runs this file there, and `make test` here."""

from __future__ import annotations

import json
import os
import subprocess as standard_subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import select, selectors, socket, subprocess
from dhaga.http import HTTPClient
from dhaga.servers import TCPServer
from tests.kit.tls import tls

LOCAL = ("127.0.0.1", 0)
PATIENCE = 60


def echo(sock: Any, peer: Any) -> None:
    while data := sock.recv(1 << 16):
        sock.sendall(data)


def ask(address: Any, text: bytes) -> bytes:
    with socket.create_connection(address) as client:
        client.sendall(text)
        return bytes(client.recv(100))


def test_a_server_answers_many_clients_at_once() -> None:
    with TCPServer(echo, LOCAL) as server:
        asked = [dhaga.spawn(ask, server.listeners[0].getsockname(), b"%d" % n) for n in range(50)]
        assert [each.result(PATIENCE) for each in asked] == [b"%d" % n for n in range(50)]


def test_more_than_the_buffers_hold_goes_both_ways() -> None:
    one, other = socket.socketpair()
    text = os.urandom(3_000_000)

    def receive(size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            received += one.recv(1 << 20)
        return bytes(received)

    with one, other:
        echoing = dhaga.spawn(echo, other, None)
        receiving = dhaga.spawn(receive, len(text))
        one.sendall(text)
        assert receiving.result(PATIENCE) == text
        one.shutdown(socket.SHUT_WR)
        echoing.result(PATIENCE)


def test_a_wait_for_a_socket_ends_by_its_timeout_a_deadline_and_its_close() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.01)
        with pytest.raises(TimeoutError):
            one.recv(1)
        one.settimeout(None)
        with dhaga.move_on_after(0.01) as scope:
            one.recv(1)
        assert scope.cancelled_caught
        dhaga.spawn(one.close)
        with pytest.raises(OSError, match="Bad file descriptor"):
            one.recv(1)


def test_a_close_wakes_who_reads_from_tls() -> None:
    with tls() as (one, _):
        dhaga.spawn(one.close)
        with pytest.raises(OSError, match="Bad file descriptor"):
            one.recv(1)


def test_after_the_shutdown_of_tls_both_ends_go_on_in_clear() -> None:
    with tls() as (one, other):
        unwrapping = dhaga.spawn(other.unwrap)
        assert one.recv(5) == b""
        with one.unwrap() as near, unwrapping.result(PATIENCE) as far:
            near.sendall(b"in clear")
            assert far.recv(100) == b"in clear"


def test_an_os_thread_waits_for_a_socket_too() -> None:
    one, other = socket.socketpair()
    with one, other:
        received: list[bytes] = []
        thread = threading.Thread(target=lambda: received.append(one.recv(10)))
        thread.start()
        other.send(b"x")
        thread.join(PATIENCE)
        assert received == [b"x"]


def test_a_refused_connection_is_the_standard_error() -> None:
    with socket.create_server(LOCAL) as server:
        address = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_select_and_selectors_park_until_a_socket_is_ready() -> None:
    one, other = socket.socketpair()
    with one, other, selectors.DefaultSelector() as selector:
        dhaga.spawn(other.send, b"x")
        assert select.select([one], [], [], PATIENCE) == ([one], [], [])
        one.recv(1)
        key = selector.register(one, selectors.EVENT_READ)
        dhaga.spawn(other.send, b"x")
        assert selector.select(PATIENCE) == [(key, selectors.EVENT_READ)]


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: Any) -> None:
        pass


def test_the_client_of_http_fetches() -> None:
    with ThreadingHTTPServer(LOCAL, Hello) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            with HTTPClient() as client:
                assert client.fetch(f"http://127.0.0.1:{server.server_address[1]}/").body == b"hello"
        finally:
            server.shutdown()
            serving.join()


def test_others_run_while_a_process_is_read_from_and_waited_for() -> None:
    code = "import sys; sys.stdin.readline(); print(42)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def answer() -> None:
            process.stdin.write("go on\n")
            process.stdin.flush()

        # If the read held the OS thread, the process would never get its line.
        dhaga.spawn(answer)
        assert process.stdout.read().strip() == "42"
        assert process.wait(PATIENCE) == 0


def run(*arguments: str) -> tuple[str, str]:
    return started(*arguments).communicate(timeout=PATIENCE)


def started(*arguments: str, **variables: str) -> standard_subprocess.Popen[str]:
    """Start a Python with pipes, because Wine's Python opens neither files nor the null device for its streams."""
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    return standard_subprocess.Popen(
        [sys.executable, *arguments],
        stdin=standard_subprocess.PIPE,
        stdout=standard_subprocess.PIPE,
        stderr=standard_subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths, **variables},
        text=True,
    )


def test_a_threaded_program_runs_with_its_threads_as_dhagas(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""\
        import queue, socket, threading, time

        results, server = queue.Queue(), socket.create_server(("127.0.0.1", 0))

        def serve():
            for _ in range(5):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(connection.recv(10).upper())

        def ask():
            with socket.create_connection(server.getsockname()) as client:
                time.sleep(0.01)
                client.sendall(b"hello")
                results.put(client.recv(10))

        threads = [threading.Thread(target=serve), *(threading.Thread(target=ask) for _ in range(5))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(threading.Thread.__module__, [results.get() for _ in range(5)] == [b"HELLO"] * 5)
        """)
    )
    assert run("-m", "dhaga", str(program)) == ("dhaga.threading True\n", "")


def test_ctrl_c_reaches_parked_main_code_and_lets_dhagas_tidy_up() -> None:
    out, err = run(
        "-c",
        textwrap.dedent("""\
        import _thread, threading
        import dhaga

        def tidy():
            try:
                dhaga.sleep(1000)
            finally:
                print("tidied")

        dhaga.spawn(tidy, daemon=True)
        dhaga.sleep(0)
        try:
            threading.Thread(target=_thread.interrupt_main).start()
            dhaga.sleep(1000)
        except KeyboardInterrupt:
            print("interrupted")
        """),
    )
    assert (out, err) == ("interrupted\ntidied\n", "")


INSPECTED = """
    import dhaga, sys
    dhaga.spawn(dhaga.sleep, 1000, name="sleeper", daemon=True)
    dhaga.sleep(0)
    print("ready", flush=True)
    dhaga.offload(sys.stdin.readline)
"""


@pytest.mark.process
@pytest.mark.long("starts three processes")
def test_dump_and_top_show_the_dhagas_of_another_process() -> None:
    with started("-c", textwrap.dedent(INSPECTED), DHAGA_DEBUG="1") as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            dump, err = run("-m", "dhaga", "dump", str(process.pid))
            assert "sleeper" in dump and err == ""
            table, err = run("-m", "dhaga", "top", "--json", str(process.pid))
            assert "sleeper" in [row["name"] for row in json.loads(table)["rows"]] and err == ""
        finally:
            process.stdin.close()
    out, err = run("-m", "dhaga", "dump", str(process.pid))
    assert out == "" and f"there is no process {process.pid}" in err
