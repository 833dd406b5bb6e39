"""The servers of `benchmarks.web`, each in a new process on one CPU, and the cost of this process.

`python -m benchmarks.web.servers RIVAL PORT hello|site` runs the servers that are libraries, not programs.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.machine import cpu_in, raise_file_limit, stat_of
from benchmarks.web import apps

PATIENCE = 30.0  # maximum seconds until a server has started, or ended
CONNECTIONS = 15_000  # maximum number per server: the idle connections and the load's

DHAGA, SERVE, UVICORN = "dhaga", "dhaga serve", "uvicorn"
PYWSGI, PYWSGI_NODELAY = "gevent.pywsgi", "gevent.pywsgi nodelay"
GUNICORN, GUNICORN_GEVENT, GTHREAD = "gunicorn dhaga", "gunicorn gevent", "gunicorn gthread"
RIVALS = DHAGA, SERVE, PYWSGI, PYWSGI_NODELAY, UVICORN, GUNICORN, GUNICORN_GEVENT, GTHREAD
HOLDERS = {DHAGA: "dhaga", SERVE: "dhaga", PYWSGI: "gevent", GUNICORN: "dhaga", GUNICORN_GEVENT: "gevent"}
"""For each rival that can hold connections with long polls, the package of the event for which the polls wait."""

NEEDED = {PYWSGI: "gevent", PYWSGI_NODELAY: "gevent", UVICORN: "uvicorn", GUNICORN_GEVENT: "gevent"}
WORKERS = {
    GUNICORN: ["dhaga.integrations.gunicorn.Worker"],
    GUNICORN_GEVENT: ["gevent"],
    GTHREAD: ["gthread", "--threads", "32"],
}


def command_of(rival: str, port: int, holds: bool) -> list[str]:
    """Return the command line with which a rival serves 'hello', or the site if ``holds``; without an access log."""
    place, python = f"127.0.0.1:{port}", [sys.executable, "-m"]
    app = f"{HOLDERS[rival]}_site()" if holds else "hello"
    if rival in (DHAGA, PYWSGI, PYWSGI_NODELAY):
        return [*python, "benchmarks.web.servers", rival, str(port), "site" if holds else "hello"]
    if rival == SERVE:
        limit = ["--max-connections", str(CONNECTIONS)]
        return [*python, "dhaga", "serve", f"benchmarks.web.apps:{app}", "--bind", place, *limit]
    if rival == UVICORN:
        quiet = ["--no-access-log", "--log-level", "warning", "--lifespan", "off"]
        fast = ["--loop", "uvloop", "--http", "httptools", "--host", "127.0.0.1", "--port", str(port)]
        return [*python, "uvicorn", "benchmarks.web.apps:hello_asgi", *fast, *quiet]
    limits = ["--worker-connections", str(CONNECTIONS), "--log-level", "warning", "--no-control-socket"]
    return [*python, "gunicorn", f"benchmarks.web.apps:{app}", "-b", place, "-k", *WORKERS[rival], *limits]


@dataclass
class Server:
    """A running server. ``pid``: the process that serves, which is the server's own process or its only worker."""

    rival: str
    port: int
    pid: int = 0  # 0 until the server runs

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, path: str = "") -> bytes:
        """Return the server's answer for a path."""
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as response:
            return bytes(response.read())

    def cpu(self) -> float:
        """Return the CPU time used so far, in seconds."""
        return cpu_in(stat_of(self.pid))

    def resident(self) -> float:
        """Return the resident memory in MB."""
        return int(stat_of(self.pid)[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # the process has just ended
            if each.name.isdigit() and int(stat_of(int(each.name))[1]) == pid:
                found.append(int(each.name))
    return found


def free_port() -> int:
    """Return a port that is currently free."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@contextmanager
def serving(rival: str, cpu: int, holds: bool = False) -> Iterator[Server]:
    """Run a server of 'hello', or of the site, on one CPU. Raises: RuntimeError if it does not start."""
    port = free_port()
    with running(Server(rival, port), command_of(rival, port, holds), cpu) as server:
        if server.ask() != apps.BODY:
            raise RuntimeError(f"{rival} serves something else")
        yield server


@contextmanager
def running(server: Server, command: list[str], cpu: int | None) -> Iterator[Server]:
    """Run the command of a server, on one CPU if given. Raises: RuntimeError with the server's last output if it does
    not start.
    """
    pinned = ["taskset", "--cpu-list", str(cpu), *command] if cpu is not None else command
    with tempfile.TemporaryFile("w+") as words:
        process = subprocess.Popen(pinned, stdout=words, stderr=words, text=True, start_new_session=True)
        try:
            if not answers(server, process):
                words.seek(0)
                raise RuntimeError(words.read().strip().rpartition("\n")[2] or f"exit status {process.poll()}")
            server.pid = next(iter(children_of(process.pid)), process.pid)
            yield server
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def answers(server: Server, process: subprocess.Popen[str]) -> bool:
    """Wait until a server answers. Returns: False if it ends or does not answer in time."""
    deadline = monotonic() + PATIENCE
    while process.poll() is None and monotonic() < deadline:
        with contextlib.suppress(OSError):
            return bool(server.ask())
        sleep(0.05)
    return False


# ---- in the server's process


def serve_dhaga(app: Any, port: int) -> None:
    """Serve with `dhaga.http.wsgi`."""
    from dhaga.http.wsgi import Server as HTTPServer

    HTTPServer(app, ("127.0.0.1", port), max_connections=CONNECTIONS).serve_forever()


def serve_pywsgi(app: Any, port: int, nodelay: bool = False) -> None:
    """Serve with gevent's WSGI server. By default it does not disable Nagle's algorithm, and sends head and body
    separately.
    """
    from gevent.pywsgi import WSGIServer

    server = WSGIServer(("127.0.0.1", port), app, log=None, backlog=4096)
    server.init_socket()
    if nodelay:
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server.serve_forever()


def main() -> None:
    """Serve until the process is killed."""
    rival, port, app = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    raise_file_limit()
    if rival == DHAGA:
        serve_dhaga(apps.dhaga_site() if app == "site" else apps.hello, port)
    else:
        serve_pywsgi(apps.gevent_site() if app == "site" else apps.hello, port, rival == PYWSGI_NODELAY)


if __name__ == "__main__":
    main()
