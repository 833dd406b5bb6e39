"""The exit of a threaded program: what its threads, executors and timers do in each phase is what plain Python does."""

from __future__ import annotations

import functools
import pathlib
import signal
import socket

import pytest

from tests.kit.exit_programs import PHASES, program
from tests.kit.prefork_programs import Running
from tests.kit.scripts import ROOT, prints

WAYS = ("-m", "dhaga"), ("-m", "dhaga", "--as", "gevent"), ("-m", "dhaga", "--as", "eventlet")


@functools.cache
def plain(*phases: str) -> list[str]:
    return prints(program(*phases))


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_of_the_exit_finds_what_it_finds_in_plain_python(phase: str, way: tuple[str, ...]) -> None:
    assert prints(program(phase), *way) == plain(phase)
    assert len(plain(phase)) == 2 and "daemon: True 42" in plain(phase)[1]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_the_phases_of_an_exit_come_in_the_order_of_plain_python(way: tuple[str, ...]) -> None:
    phases = [phase for phase in PHASES if phase != "executor"]  # this phase runs beside "hook"
    assert prints(program(*phases), *way) == plain(*phases)
    assert len(plain(*phases)) == 1 + len(phases)


# ---- servers


APP = """
def app(environ, start_response):
    begin()
    start_response("204 No Content", [])
    return []
"""

CELERY = """
import celery.signals

app = celery.Celery("exits", broker="memory://", backend="cache+memory://")
app.conf.worker_hijack_root_logger = False
task = app.task(begin, name="begin")
celery.signals.worker_ready.connect(lambda **_: task.delay(), weak=False)
"""

SERVERS = {
    "serve": ("-m", "dhaga", "serve", "--threads", "2", "--bind", "127.0.0.1:0", "exits:app"),
    "gunicorn": ("-m", "gunicorn", "-k", "dhaga.integrations.gunicorn.Worker", "-b", "127.0.0.1:0", "exits:app"),
    "celery": ("-m", "celery", "-A", "exits", "worker", "-P", "custom", "-c", "4"),
}


def in_request(text: str) -> str:
    """Return a module in which a request or a task begins the program: its threads start there, and inherit from it."""
    return f"""
import sys

def begin():
    exec({text!r}, globals())
    print("it has begun", file=sys.stderr, flush=True)
"""


@pytest.mark.once
@pytest.mark.parametrize("server", SERVERS)
def test_a_worker_that_is_told_to_end_does_so_in_the_order_of_plain_python(server: str, tmp_path: pathlib.Path) -> None:
    phases = [phase for phase in PHASES if phase != "executor"]
    if server != "serve":
        pytest.importorskip(server)
    text = in_request(program(*phases))
    (tmp_path / "exits.py").write_text(text + (CELERY if server == "celery" else APP))
    log = tmp_path / "told"
    log.touch()
    environment = {
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "CELERY_CUSTOM_WORKER_POOL": "dhaga.integrations.celery:TaskPool",
    }
    with Running(tmp_path, *SERVERS[server], EXIT_LOG=str(log), **environment) as running:
        if server != "celery":
            (port,) = running.wait_for(r"[Ll]isten(?:s|ing) at:? http://127.0.0.1:([0-9]+)")
            with socket.create_connection(("127.0.0.1", int(port))) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                assert b" 204 " in client.recv(1000)
        running.wait_for("it has begun")
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        assert log.read_text().splitlines() == plain(*phases)
