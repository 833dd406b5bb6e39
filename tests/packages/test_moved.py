"""Packages for gevent and eventlet, unchanged, on ``dhaga.compat``: ``python -m dhaga --as gevent …``.

Their programs (``moved/``, and apps of ``doors/``) see a gevent and an eventlet that cannot be imported, whether the
real ones are installed or not: so it is Dhaga's that they run on, with nothing of those.

nameko is in no group of pyproject.toml, as its plugin for pytest loads eventlet into each session that finds it: its
test is skipped unless it was installed by hand, and pytest is run with ``-p no:pytest_nameko``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integrations.gunicorns import Gunicorn
from tests.kit.prefork_programs import Running
from tests.kit.scripts import PATIENCE, ROOT
from tests.kit.sockets import free_port
from tests.packages.test_doors import CROWD, DOORS, FEW, Site, celery_worker
from tests.packages.test_packages import Servers, is_installed, servers  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.once, pytest.mark.process]

MOVED = Path(__file__).parent / "moved"
REFUSAL = "raise ImportError('the real one is not to be imported')\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PYTHONPATH on which the real gevent and eventlet cannot be imported."""
    for name in ("gevent", "eventlet"):
        (tmp_path / "hidden" / name).mkdir(parents=True)
        (tmp_path / "hidden" / name / "__init__.py").write_text(REFUSAL)
    return f"{tmp_path / 'hidden'}:{ROOT}"


def needs(*packages: str) -> None:
    """Skip the test unless these are installed."""
    for package in packages:
        if not is_installed(package):
            pytest.skip(f"needs {package}")


def launch(name: str, *arguments: str) -> list[str]:
    """Return the arguments of Python that run a program with Dhaga's gevent or eventlet."""
    return ["-m", "dhaga", "--as", name, *arguments]


def moved(name: str, program: str, *arguments: str) -> list[str]:
    """Return the same for a program of ``moved/``."""
    return launch(name, str(MOVED / f"{program}.py"), *arguments)


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )


# ---- programs that end


class Moved(NamedTuple):
    """A program that ends, what its package is imitated as, the packages it needs, and what serves it."""

    name: str
    words: str
    packages: str
    server: str


PROGRAMS = (
    Moved("gevent", "grequests_together", "grequests", "http"),
    Moved("gevent", "geventhttpclient_together", "geventhttpclient", "http"),
    Moved("gevent", "psycogreen_sleep gevent", "psycogreen psycopg2", "DHAGA_POSTGRES"),
    Moved("eventlet", "psycogreen_sleep eventlet", "psycogreen psycopg2", "DHAGA_POSTGRES"),
    Moved("eventlet", "nameko_calls", "nameko", "DHAGA_RABBITMQ"),
    Moved("eventlet", "oslo_messaging_calls fake://", "oslo_messaging", ""),
    Moved("eventlet", "oslo_messaging_calls rabbit", "oslo_messaging", "DHAGA_RABBITMQ"),
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.words)
def test_a_program_of_a_package_waits_together(
    program: Moved,
    tmp_path: Path,
    path: str,
    servers: Servers,  # noqa: F811
) -> None:
    needs(*program.packages.split())
    environment = servers.environment_of(program.server)
    ended = run(moved(program.name, *program.words.split()), tmp_path, PYTHONPATH=path, **environment)
    assert ended.returncode == 0, ended.stderr
    assert int(re.fullmatch(r"peak (\d+)\n", ended.stdout)[1]) >= FEW


# ---- servers


@pytest.mark.parametrize("kind", ["gevent", "gevent_pywsgi"])
def test_gunicorns_gevent_workers_answer_together(kind: str, tmp_path: Path, path: str) -> None:
    needs("gunicorn", "flask", "httptools")
    options = ("-b", "127.0.0.1:0", "--access-logfile", "-", "--worker-connections", "500")
    with Gunicorn(
        tmp_path / "log",
        *options,
        app=f"{DOORS}.flask_blocking:app",
        kind=kind,
        launcher=("-m", "dhaga", "--as", "gevent"),
        PYTHONPATH=f"{path}:{tmp_path}",
    ) as gunicorn:
        gunicorn.workers()
        for way in ("sleep", "requests"):
            site = Site(gunicorn.address, gunicorn)
            assert site.get_together(f"/meet/{way}/{FEW}", FEW) == {b"%d" % FEW}, way
            gunicorn.says(rf'"GET /meet/{way}/{FEW} HTTP/1\.0" 200', FEW)
        gunicorn.signal(signal.SIGTERM)
        assert gunicorn.ends() == 0


@pytest.mark.parametrize("kind", ["gevent", "gevent_pywsgi"])
def test_websockets_of_flask_sock_work_in_gunicorns_gevent_workers(kind: str, tmp_path: Path, path: str) -> None:
    needs("gunicorn", "flask_sock", "httptools")
    websocket = pytest.importorskip("websocket")
    with (
        Gunicorn(
            tmp_path / "log",
            *("-b", "127.0.0.1:0"),
            app=f"{DOORS}.flask_sockets:app",
            kind=kind,
            launcher=("-m", "dhaga", "--as", "gevent"),
            PYTHONPATH=f"{path}:{tmp_path}",
        ) as gunicorn,
        ExitStack() as stack,
    ):
        gunicorn.workers()
        url = "ws://{}:{}/echo".format(*gunicorn.address)
        clients = [websocket.create_connection(url, timeout=PATIENCE) for _ in range(FEW)]
        for client in clients:
            stack.callback(client.shutdown)
        for number, client in enumerate(clients):
            client.send(f"message {number}")
        assert [client.recv() for client in clients] == [f"message {number}" for number in range(FEW)]


@contextmanager
def serving(path: str, *command: str) -> Iterator[tuple[Running, str]]:
    """Run a program that says its port and serves. Yields: it, and its port."""
    with Running(ROOT, *command, PYTHONPATH=path) as running:
        (port,) = running.wait_for(r"^port (\d+)")
        yield running, port


@pytest.mark.parametrize("mode", ["gevent", "eventlet"])
@pytest.mark.parametrize("kind", ["flask", "plain"])
def test_socketio_serves_real_clients(kind: str, mode: str, tmp_path: Path, path: str) -> None:
    needs("flask_socketio", "socketio", "websocket", "httptools")
    with serving(path, *moved(mode, "socketio_server", kind, mode)) as (running, port):
        wait_for(port)
        ended = run([str(MOVED / "socketio_callers.py"), port, str(FEW)], tmp_path)
        assert (ended.stdout, ended.returncode) == (f"{FEW}\n", 0), ended.stderr
        running.signal(signal.SIGTERM)
        running.end()
        assert "Traceback" not in "\n".join(running.log)


def wait_for(port: str) -> None:
    """Wait until a server listens."""
    from tests.packages.test_packages import wait_for_port

    wait_for_port(int(port))


def test_gevent_websocket_tells_each_message_to_all(tmp_path: Path, path: str) -> None:
    needs("geventwebsocket", "httptools")
    websocket = pytest.importorskip("websocket")
    with serving(path, *moved("gevent", "gevent_websocket_rooms")) as (running, port):
        url = f"ws://127.0.0.1:{port}/room"
        clients = [websocket.create_connection(url, timeout=PATIENCE) for _ in range(FEW)]
        assert [client.recv() for client in clients] == ["open"] * FEW
        clients[0].send("abc" * 30_000)
        assert {client.recv() for client in clients} == {"abc" * 30_000}
        clients[1].send_binary(b"\0\1" * 300)
        assert {client.recv() for client in clients} == {b"\0\1" * 300}
        for client in clients:
            client.close()
        assert len(running.wait_for("^left$", FEW)) == FEW
        assert Site(("127.0.0.1", int(port)), running).get("/") == "page"


# ---- workers


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_celerys_pools_let_tasks_wait_together(pool: str, tmp_path: Path, path: str) -> None:
    needs("celery", "redis")
    command = [sys.executable, *launch(pool, "-m", "celery")]
    with celery_worker(tmp_path, command, "-P", pool, tasks=CROWD, PYTHONPATH=path) as (results, log):
        assert set(results) == {CROWD}
        assert f"concurrency: 1000 ({pool})" in log


@pytest.mark.parametrize("workers", [0, 2])
def test_oslo_service_runs_timers_and_threads_and_ends_by_a_signal(workers: int, tmp_path: Path, path: str) -> None:
    needs("oslo_service")
    with Running(ROOT, *moved("eventlet", "oslo_service_workers", str(workers)), PYTHONPATH=path) as running:
        assert running.wait_for(r"^worked (\w+)$", workers or 1) == ["True"] * (workers or 1)
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        assert running.log.count("stopped") == (workers + 1 if workers else 1)
        assert running.log[-1] == "ended"


# ---- locust


@pytest.mark.parametrize("real", ["hidden", "beside"])
def test_locust_loads_a_server_by_users_that_wait_together(
    real: str,
    tmp_path: Path,
    path: str,
    servers: Servers,  # noqa: F811
) -> None:
    needs("locust", "httptools")
    url = servers.environment_of("http")["HTTP_URL"]
    options = [
        "--headless",
        "-u",
        str(FEW),
        "-r",
        str(FEW),
        "-t",
        "5s",
        "-H",
        url,
        "--json",
        "--exit-code-on-error",
        "1",
    ]
    command = launch("gevent", "-m", "locust", "-f", str(MOVED / "locust_users.py"), *options)
    ended = run(command, tmp_path, PYTHONPATH=path if real == "hidden" else str(ROOT), USERS=str(FEW))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = {entry["name"]: entry for entry in json.loads(ended.stdout)}
    assert found.keys() == {f"/first?count={FEW}", "/echo"}
    assert found[f"/first?count={FEW}"]["num_requests"] == FEW
    assert found["/echo"]["num_requests"] > 5 * FEW
    assert not any(entry["num_failures"] for entry in found.values())


def test_locusts_users_may_be_coroutines(
    tmp_path: Path,
    path: str,
    servers: Servers,  # noqa: F811
) -> None:
    needs("locust", "httptools")
    url = servers.environment_of("http")["HTTP_URL"]
    load = ["--headless", "-u", "10", "-r", "10", "-t", "5s", "-H", url, "--json", "--exit-code-on-error", "1"]
    command = launch("gevent", "-m", "locust", "-f", str(MOVED / "locust_coroutines.py"), *load)
    ended = run(command, tmp_path, PYTHONPATH=path, USERS="10")
    assert ended.returncode == 0, ended.stderr
    found = {entry["name"]: entry for entry in json.loads(ended.stdout)}
    assert found["/first?count=20"]["num_requests"] == 20
    assert found["/echo"]["num_requests"] > 20
    assert not any(entry["num_failures"] for entry in found.values())


def test_locusts_master_and_worker_find_each_other_by_zmq(
    tmp_path: Path,
    path: str,
    servers: Servers,  # noqa: F811
) -> None:
    needs("locust", "httptools", "zmq")
    url = servers.environment_of("http")["HTTP_URL"]
    file = ["-f", str(MOVED / "locust_users.py")]
    load = ["--headless", "-u", "4", "-r", "4", "-t", "4s", "-H", url, "--json", "--exit-code-on-error", "1"]
    port = str(free_port())
    master = [*file, *load, "--master", "--expect-workers", "1", "--master-bind-port", port]
    worker = [*file, "--worker", "--master-port", port]
    environment = {**os.environ, "PYTHONPATH": path, "USERS": "4"}
    with subprocess.Popen(
        [sys.executable, *launch("gevent", "-m", "locust", *worker)],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            ended = run(launch("gevent", "-m", "locust", *master), tmp_path, PYTHONPATH=path, USERS="4")
            _, err = other.communicate(timeout=PATIENCE)
        finally:
            other.kill()
    assert (ended.returncode, other.returncode) == (0, 0), ended.stderr + err
    found = {entry["name"]: entry["num_requests"] for entry in json.loads(ended.stdout)}
    assert found["/first?count=4"] == 4 and found["/echo"] > 4
