"""Web services in OS threads or processes: `dhaga serve --threads N` and `--workers N`, on any Python, under load."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.service import database
from benchmarks.service.load import load
from benchmarks.service.servers import Tree
from benchmarks.web.servers import free_port, running

WARM_UP = 2.0
"""Seconds before the measurement, in which SQLAlchemy compiles statements and connections are opened."""

FLASK = "benchmarks.service.flask_site:app"


class Python(NamedTuple):
    """An interpreter."""

    path: str
    free_threaded: bool


@dataclass(frozen=True)
class Site:
    """An app, its environment variables, and its additional environment variables for a free-threaded Python."""

    app: str
    clients: int
    environment: Mapping[str, str] = field(default_factory=dict)
    free_environment: Mapping[str, str] = field(default_factory=dict)
    databases: bool = False

    def settings(self, python: Python) -> list[str]:
        """Return the variables as arguments of `env`."""
        found = {**self.environment, **(self.free_environment if python.free_threaded else {})}
        return [f"{name}={value}" for name, value in found.items()]


SITES = {
    "hello": Site("benchmarks.web.apps:hello", 64),
    "flask-pg8000": Site(FLASK, 100, {database.DRIVER_VARIABLE: "pg8000"}, databases=True),
    "flask-psycopg2": Site(FLASK, 100, free_environment={"PYTHON_GIL": "0"}, databases=True),
}
"""An import of psycopg2 enables the interpreter lock, unless PYTHON_GIL=0 is set, at the user's own risk."""


def serve(site: Site, python: Python, threads: int, processes: int, seconds: float) -> dict[str, float]:
    """Serve a site to clients that send the next request after each answer. Returns: a sample, see `samples.py`."""
    port = free_port()
    shape = ["--threads", str(threads), "--workers", str(processes)]
    command = [
        "env",
        *site.settings(python),
        python.path,
        "-m",
        "dhaga",
        "serve",
        site.app,
        "--bind",
        f"127.0.0.1:{port}",
        *shape,
    ]
    with running(Tree("dhaga serve", port), command, None) as tree:
        assert isinstance(tree, Tree)
        load(port, site.clients, WARM_UP, "/")
        spent = tree.cpu()
        seen = load(port, site.clients, seconds, "/")
        spent = tree.cpu() - spent
        memory = tree.resident()
    if seen["failed"] or not seen["answers"]:
        raise RuntimeError(f"{site.app}: {seen['failed']:g} requests have failed, {seen['answers']:g} were answered")
    return {
        "rate": seen["answers"] / seen["seconds"],
        "cpu": spent / seen["answers"] * 1e6,
        "cores": spent / seen["seconds"],
        "memory": memory,
        "p99": seen["p99"] / 1e3,
    }
