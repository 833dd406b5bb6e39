"""Servers for the programs, each a process of its own: ``python -m tests.packages.services NAME`` prints its port.

They run on plain OS threads, or on asyncio: they are no part of what is tested.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SSHD = os.environ.get("DHAGA_SSHD") or shutil.which("sshd") or "/usr/sbin/sshd"
PATIENCE = 30
"""Seconds for which one waits for the others."""


class Gathering:
    """Keeps each who comes until the number of those here, which all have been told, is complete."""

    def __init__(self) -> None:
        self.barriers: dict[Any, threading.Barrier] = {}

    def wait(self, name: object, count: int) -> int:
        barrier = self.barriers.setdefault((name, count), threading.Barrier(count))
        try:
            barrier.wait(PATIENCE)
        except threading.BrokenBarrierError:
            self.barriers.pop((name, count), None)
            raise
        return count


class HTTPHandler(BaseHTTPRequestHandler):
    """``/together?count=n`` answers once n wait, ``/never`` does not answer, ``/echo`` gives the body back."""

    protocol_version = "HTTP/1.1"
    gathering = Gathering()
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/never":
            time.sleep(PATIENCE)
            return
        count = self.gathering.wait(url.path, int(urllib.parse.parse_qs(url.query)["count"][0]))
        self.answer(json.dumps({"at once": count}).encode())

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Elastic-Product", "Elasticsearch")  # without which its client takes no answer
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class HTTPServer(ThreadingHTTPServer):
    request_queue_size = 1000
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that did not wait for the answer


def http() -> None:
    """Serve HTTP."""
    with HTTPServer(("127.0.0.1", 0), HTTPHandler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


def s3() -> None:
    """Serve S3; who gets an object ``together-n`` waits until n do."""
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto, gathering = DomainDispatcherApplication(create_backend_app), Gathering()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        name, _, count = environ["PATH_INFO"].rpartition("/together-")
        if count.isdigit() and environ["REQUEST_METHOD"] == "GET":
            gathering.wait(name, int(count))
        answer: Iterable[bytes] = moto(environ, start_response)
        return answer

    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


def smtp() -> None:
    """Serve SMTP; who sends a message with the subject ``together n`` waits until n do."""
    import asyncio

    from aiosmtpd.smtp import SMTP

    barriers: dict[str, asyncio.Barrier] = {}

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            subject = envelope.content.decode().partition("Subject: ")[2].splitlines()[0]
            count = int(subject.split()[1])
            await asyncio.wait_for(barriers.setdefault(subject, asyncio.Barrier(count)).wait(), PATIENCE)
            return f"250 {count} at once"

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: SMTP(Handler(), loop=loop), "127.0.0.1", 0, backlog=1000)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(serve())


def websocket() -> None:
    """Serve WebSockets: once 200 clients have spoken, each is told how many they are, and what it has said."""
    import asyncio

    from tornado import web
    from tornado import websocket as websockets
    from tornado.httpserver import HTTPServer
    from tornado.testing import bind_unused_port

    heard: list[tuple[websockets.WebSocketHandler, Any]] = []

    class Handler(websockets.WebSocketHandler):
        def on_message(self, message: Any) -> None:
            heard.append((self, message))
            if len(heard) == 200:
                for handler, said in heard:
                    handler.write_message(f"{len(heard)} at once")
                    handler.write_message(said)
                heard.clear()

    async def serve() -> None:
        sock, port = bind_unused_port()
        sock.listen(1000)
        HTTPServer(web.Application([("/", Handler)])).add_socket(sock)
        print(port, flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


def sshd() -> None:
    """Run an sshd in the folder SSH_FOLDER, for whom has the key ``user`` there."""
    folder = os.environ["SSH_FOLDER"]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with open(f"{folder}/host.pub") as key, open(f"{folder}/known_hosts", "w") as known:
        known.write(f"[127.0.0.1]:{port} {key.read()}")
    options = {
        "AuthorizedKeysFile": f"{folder}/user.pub",
        "HostKey": f"{folder}/host",
        "ListenAddress": "127.0.0.1",
        "MaxSessions": "100",
        "MaxStartups": "1000",
        "PermitRootLogin": "yes",
        "PidFile": "none",
        "Port": str(port),
        "SetEnv": "SHLVL=2",  # else bash, run by sshd, reads ~/.bashrc, which may take long
        "StrictModes": "no",
        "Subsystem": "sftp internal-sftp",
        "UsePAM": "no",
    }
    os.makedirs("/run/sshd", exist_ok=True)
    command = [SSHD, "-D", "-e", "-q", "-f", "/dev/null"]
    print(port, flush=True)
    os.execv(command[0], command + [word for name, value in options.items() for word in ("-o", f"{name}={value}")])


SERVICES = {"http": http, "s3": s3, "smtp": smtp, "sshd": sshd, "websocket": websocket}

if __name__ == "__main__":
    SERVICES[sys.argv[1]]()
