"""The servers of `benchmarks.service`: command lines as users write them, and the cost of all processes of a server."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from benchmarks.machine import cpu_in, stat_of
from benchmarks.web.servers import Server, free_port, running

SERVE, GUNICORN = "dhaga serve", "gunicorn dhaga"
GEVENT, GTHREAD, GRANIAN = "gunicorn gevent", "gunicorn gthread", "granian"
DHAGA_UVICORN, UVICORN, ASYNCPG = "dhaga uvicorn", "uvicorn", "uvicorn asyncpg"

WSGI = SERVE, GUNICORN, GEVENT, GTHREAD, GRANIAN
ASGI = DHAGA_UVICORN, UVICORN, ASYNCPG
NEEDED = {GEVENT: ("gevent", "psycogreen"), GRANIAN: ("granian",), ASYNCPG: ("asyncpg",)}

THREADS = {GTHREAD: 32, GRANIAN: 32}
"""The best numbers of threads. Flask with 300 clients and 16, 32, 64, 128 threads: granian 3,480, 3,470, 3,130, 2,030
answers/s; gthread 760, 1,520, 1,410, 1,580, but with 128 threads some clients wait for 2 s.
"""

MANY_THREADS = {GTHREAD: 128, GRANIAN: 256}
"""The best numbers of threads if requests wait. With 1,000 clients and 64, 128, 256, 512 threads: granian 2,950, 5,750,
7,570, 4,940 answers/s; gthread 2,950, 3,820, 3,790, 3,860.
"""

CONNECTIONS = 10_000
"""Maximum number of connections of each server: the default of `dhaga serve`."""


@dataclass(frozen=True)
class Service:
    """A service: the app (WSGI, or ASGI for uvicorn), the requested path, and the servers that serve it."""

    title: str
    app: str
    servers: tuple[str, ...]
    path: str = "/"
    threads: Mapping[str, int] = field(default_factory=lambda: THREADS)
    clients: tuple[int, ...] = (100, 300, 1_000)
    needed: tuple[str, ...] = ()
    databases: bool = True


SERVICES = {
    "flask": Service(
        "Flask, SQLAlchemy, psycopg2, redis-py",
        "flask_site:app",
        (*WSGI, ASYNCPG),
        needed=("flask", "sqlalchemy", "psycopg2", "redis"),
    ),
    "django": Service("Django, ORM", "django_wsgi:app", WSGI, needed=("django", "psycopg_pool")),
    "fastapi": Service("FastAPI, `def` handler", "fastapi_site:app", ASGI, needed=("fastapi", "sqlalchemy")),
    "wait": Service(
        "Flask, 20 ms of waiting",
        "flask_site:app",
        WSGI,
        path="/wait",
        threads=MANY_THREADS,
        clients=(1_000,),
        needed=("flask", "sqlalchemy", "psycopg2", "redis"),
    ),
    "hello": Service("WSGI hello", "hello", WSGI, clients=(100, 1_000), databases=False),
}


def missing(service: Service, server: str) -> bool:
    """Return whether a required package is not installed."""
    return any(find_spec(name) is None for name in (*service.needed, *NEEDED.get(server, ())))


def command_of(service: Service, server: str, port: int) -> list[str]:
    """Return the command line with which a server serves a service: one process, without an access log."""
    place, python = f"127.0.0.1:{port}", [sys.executable, "-m"]
    module = "benchmarks.service.asyncpg_site:app" if server == ASYNCPG else f"benchmarks.service.{service.app}"
    if service.app == "hello":
        module = "benchmarks.web.apps:hello"
    if server == SERVE:
        return [*python, "dhaga", "serve", module, "--bind", place]
    if server in ASGI:
        patched = ["dhaga", "-m"] if server == DHAGA_UVICORN else []
        quiet = ["--no-access-log", "--log-level", "warning"]
        return [*python, *patched, "uvicorn", module, "--host", "127.0.0.1", "--port", str(port), *quiet]
    threads = str(service.threads.get(server))
    if server == GRANIAN:
        where = ["--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
        return [*python, "granian", *where, "--blocking-threads", threads, "--backlog", "4096", module]
    workers = {
        GUNICORN: ["dhaga.integrations.gunicorn.Worker"],
        GEVENT: ["gevent", "-c", "python:benchmarks.service.on_gevent"],
        GTHREAD: ["gthread", "--threads", threads],
    }
    limits = ["--worker-connections", str(CONNECTIONS), "--backlog", "4096", "--keep-alive", "75"]
    quiet = ["--log-level", "warning", "--no-control-socket"]
    return [*python, "gunicorn", module, "-b", place, "-k", *workers[server], *limits, *quiet]


class Tree(Server):
    """A server, and all processes of its session."""

    def _processes(self) -> Iterator[int]:
        session = str(os.getsid(self.pid))
        for each in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # the process has just ended
                if each.name.isdigit() and stat_of(int(each.name))[3] == session:
                    yield int(each.name)

    def cpu(self) -> float:
        """Return the CPU time used so far, in seconds."""
        return sum(cpu_in(stat_of(each)) for each in self._processes())

    def resident(self) -> float:
        """Return the memory in MB. Pages that several processes share count once."""
        return sum(map(_proportional, self._processes()))


def _proportional(process: int) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1e3


@contextmanager
def serving(service: Service, server: str, cpu: int | None) -> Iterator[Tree]:
    """Run a server, on one CPU if given; the block begins once it answers. Raises: RuntimeError if it cannot start."""
    port = free_port()
    with running(Tree(server, port), command_of(service, server, port), cpu) as tree:
        assert isinstance(tree, Tree)
        yield tree
