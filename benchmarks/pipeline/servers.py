"""The servers of `benchmarks.pipeline`, and the commands that start them.

`python -m benchmarks.pipeline.servers APP PORT` runs the servers that are libraries, not programs.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.machine import raise_file_limit
from benchmarks.pipeline import apps
from benchmarks.pipeline.backend import Backend
from benchmarks.web.servers import CONNECTIONS, Server, free_port, running, serve_dhaga, serve_pywsgi

LIBRARY = ["benchmarks.pipeline.servers"]
QUIET = ["--log-level", "warning"]
UVICORN = ["uvicorn", "--http", "httptools", "--no-access-log", "--lifespan", "off", *QUIET]
GUNICORN = ["gunicorn", "-k", "gevent", "--worker-connections", str(CONNECTIONS), "--no-control-socket", *QUIET]


@dataclass(frozen=True)
class Rival:
    """A server, and how it calls the backend. `colour`: a name in `charts.COLOURS`; `needs`: the required module."""

    name: str  # of the callers
    server: str
    colour: str
    app: str
    module: tuple[str, ...]
    needs: str = "dhaga"

    def command(self, port: int) -> list[str]:
        """Return the command line that starts the server."""
        python, app = [sys.executable, "-m", *self.module], f"benchmarks.pipeline.apps:{self.app}"
        if "gunicorn" in self.module:
            return [*python, f"{app}()", "-b", f"127.0.0.1:{port}"]
        if "uvicorn" in self.module:
            return [*python, "--factory", app, "--host", "127.0.0.1", "--port", str(port)]
        return [*python, self.app, str(port)]


THREADS = Rival("2 threads that block", "dhaga.http.wsgi", "threads", "on_threads", (*LIBRARY,))
DHAGAS = Rival("dhagas", "dhaga.http.wsgi", "dhaga", "on_dhagas", (*LIBRARY,))
PYWSGI = Rival("gevent", "gevent.pywsgi", "gevent", "on_gevent", (*LIBRARY,), "gevent")
GUNICORN_GEVENT = Rival("gevent, gunicorn", "gunicorn's gevent worker", "gevent", "on_gevent", (*GUNICORN,), "gevent")
ASYNCIO = Rival("asyncio", "uvicorn", "asyncio", "on_coroutines", (*UVICORN, "--loop", "asyncio"), "uvicorn")
UVLOOP = Rival("asyncio, uvloop", "uvicorn", "uvloop", "on_coroutines", (*UVICORN, "--loop", "uvloop"), "uvicorn")
RIVALS = THREADS, DHAGAS, PYWSGI, GUNICORN_GEVENT, ASYNCIO, UVLOOP


@contextmanager
def serving(rival: Rival, backend: Backend, cpu: int | None = None) -> Iterator[Server]:
    """Run a server that calls the backend, on one CPU. Raises: RuntimeError if it does not start."""
    port = free_port()
    command = ["env", f"{apps.PORT}={backend.port}", *rival.command(port)]
    with running(Server(rival.name, port), command, cpu) as server:
        if server.ask() != apps.PLAIN:
            raise RuntimeError(f"{rival.name} serves something else")
        yield server


def main() -> None:
    """Serve until the process is killed."""
    name, port = sys.argv[1], int(sys.argv[2])
    raise_file_limit()
    if name == PYWSGI.app:
        serve_pywsgi(apps.on_gevent(), port, nodelay=True)
    else:
        serve_dhaga(apps.on_dhagas() if name == DHAGAS.app else apps.on_threads(), port)


if __name__ == "__main__":
    main()
