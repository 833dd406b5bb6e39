"""Instructions per request of services as users run them, for `benchmarks.instructions`: the services and the clients.

`python -m benchmarks.instructions_requests NAME` serves; callgrind counts once the clients have finished their warm-up.
`python FILE PORT CLIENTS ROUNDS` runs the clients, in a process that callgrind does not follow.
"""

import gc
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

REQUESTS = {"hello": 2_000, "flask": 400, "django": 400}
"""Number of counted requests of each service. A request takes 0.1 million to more than a million instructions."""

COUNTED = "hello", "flask", "django"
"""The services that `benchmarks.instructions` counts."""

CLIENTS = {"hello": 20, "flask": 1, "django": 1}
"""Number of clients of each service. With databases it is 1: counts with 20 clients vary by 4 %, with one by 1 %."""

APPS = {
    "hello": "benchmarks.web.apps:hello",
    "flask": "benchmarks.service.flask_site:app",
    "django": "benchmarks.service.django_wsgi:app",
}
NEEDED = {
    "hello": ("httptools",),
    "flask": ("httptools", "flask", "sqlalchemy", "psycopg2", "redis"),
    "django": ("httptools", "django", "psycopg2", "psycopg_pool", "redis"),
}
SECONDS_PER_READ = {"hello": 5e-6, "flask": 40e-6, "django": 40e-6}
"""Seconds by which the clock advances at each reading, so that a lap has about as many requests as outside valgrind. A
request of Flask reads the clock 16 times.
"""

WARM_UP = 200
"""Requests before the count: connections are opened, caches filled, instructions specialized."""

FIELDS = (
    "Host: 127.0.0.1\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n"
    "Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\nCookie: session=c3b0f1d2\r\n"
)
"""The header fields that a browser sends."""


def can_serve(name: str) -> bool:
    """Return whether a service's packages are installed and its databases are running."""
    if any(find_spec(package) is None for package in NEEDED[name]):
        return False
    return name == "hello" or _has_databases()


def _has_databases() -> bool:
    import psycopg2
    import redis

    from benchmarks.service import database

    try:
        database.fill()
    except (psycopg2.OperationalError, redis.ConnectionError):
        return False
    return True


def _load_patched(name: str) -> Any:
    """Import the app as `dhaga serve` does, in a process whose clock and garbage collector do not disturb a count."""
    from dhaga._kernel import originals

    time.monotonic = originals.monotonic = itertools.count(0.0, SECONDS_PER_READ[name]).__next__
    # A full garbage collection takes as long as 20 requests, and would occur in only one of the children.
    gc.disable()

    from dhaga import monkey

    # Without preemption, because its watcher uses real time.
    monkey.patch(cooperative=True)

    from dhaga._cli.serve import load

    return load(APPS[name])


def count(name: str, environ: dict[str, str]) -> int:
    """Count the instructions of a request. Raises: RuntimeError if the service fails."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"]
        command = [*callgrind, f"--log-file={log}", sys.executable, "-m", "benchmarks.instructions_requests", name]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
        found = re.search(r"Collected : (\d+)", log.read_text())
        if done.returncode or found is None:
            raise RuntimeError(f"{name}: {done.stderr.strip() or f'exit status {done.returncode}'}")
        return round(int(found[1]) / REQUESTS[name])


def serve(name: str) -> None:
    """Serve the clients on a scheduler of this process, and exit; callgrind counts once they have warmed it up."""
    app = _load_patched(name)
    from dhaga.http.wsgi import Server

    with Server(app) as server:
        rounds = REQUESTS[name] // CLIENTS[name]
        clients = [sys.executable, "-S", "-E", __file__, str(server.address[1]), str(CLIENTS[name]), str(rounds)]
        with subprocess.Popen(clients, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
            assert running.stdin and running.stdout
            running.stdout.readline()
            _switch("on")
            running.stdin.close()
            last_words = running.stdout.readline()
            _switch("off")
    os._exit(0 if last_words else 1)


def _switch(state: str) -> None:
    if shutil.which("callgrind_control") and "valgrind" in os.environ.get("LD_PRELOAD", ""):
        subprocess.run(["callgrind_control", "-i", state, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


def ask(port: int, clients: int, rounds: int) -> None:
    """Run the clients. Each sends the next request after each answer, for the warm-up and then ``rounds`` times."""
    request = f"GET / HTTP/1.1\r\n{FIELDS}\r\n".encode()
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
    _ask_in_turn(connections, request, WARM_UP // clients)
    print("warm", flush=True)
    sys.stdin.read()
    _ask_in_turn(connections, request, rounds)
    print("done", flush=True)


def _ask_in_turn(connections: list[socket.socket], request: bytes, rounds: int) -> None:
    """Send on all connections, and send again on each connection that has answered. Raises: RuntimeError."""
    for number in range(rounds + 1):
        for connection in connections:
            if number:
                _expect_answer(connection)
            if number < rounds:
                connection.sendall(request)


def _expect_answer(client: socket.socket) -> None:
    answer = client.recv(65_536)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(answer[:200])


def main() -> None:
    """Serve, or ask."""
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        ask(*map(int, sys.argv[1:]))


if __name__ == "__main__":
    main()
