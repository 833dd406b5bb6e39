"""Blocking code behind the doors that serve it, each by its documented command: its requests and tasks wait together.

The views and tasks of ``doors/`` wait by blocking calls until a crowd of them is inside at once (``doors/meeting.py``).
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.celeries.gate import PATIENCE as LONG
from tests.integrations.gunicorns import Gunicorn, rest
from tests.kit.prefork_programs import Running
from tests.kit.scripts import PATIENCE, ROOT
from tests.packages.test_packages import ADDRESSES
from tests.scenarios.test_asyncio_libraries import address_of

for package in ("flask", "flask_sock", "flask_socketio", "gunicorn", "httptools", "websocket"):
    pytest.importorskip(package)

pytestmark = pytest.mark.once

DOORS = "tests.packages.doors"
SERVE, GUNICORN = "serve", "gunicorn"
CROWD = 100
FEW = 20
"""Of what needs a connection to a database each, or two requests."""

WAYS = {"sleep": CROWD, "psycopg2": FEW, "redis": FEW, "requests": FEW}
EARLY = "import threading\nclass Early(threading.Thread): pass\n"


class Site:
    """A running door: where it listens, and how it ends."""

    def __init__(self, address: tuple[str, int], end: Any) -> None:
        self.address = address
        self.end = end

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def get_together(self, path: str, count: int) -> set[bytes]:
        """Send so many requests before the first answer is read. Returns: the different bodies."""
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(self.address, PATIENCE)) for _ in range(count)]
            for client in clients:
                client.sendall(
                    f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{self.address[1]}\r\nConnection: close\r\n\r\n".encode()
                )
            return {rest(client).rpartition(b"\r\n\r\n")[2] for client in clients}


@contextmanager
def served(
    door: str,
    app: str,
    folder: Path,
    *options: str,
    hooks: str = "",
    before: tuple[str, ...] = (),
    option: str = "",
    **environment: str,
) -> Iterator[Site]:
    """Serve an app of ``doors/`` by one of the doors; ``before``: the words of the command up to the door's."""
    name = f"{DOORS}.{app}:app"
    if door == SERVE:
        command = ["-m", "dhaga", "serve", name, "--bind", "127.0.0.1:0", *options]
        with Running(ROOT, *before, *command, **environment) as running:
            running.begin()
            host, _, port = running.address.partition(":")
            yield Site((host, int(port)), running)
    else:
        log = folder / "log"
        words = {
            "app": name,
            "hooks": hooks,
            "launcher": (option,) if option else (),
            "before": before or (sys.executable,),
            **environment,
        }
        with Gunicorn(log, "-b", "127.0.0.1:0", *options, **words) as gunicorn:
            gunicorn.workers()
            yield Site(gunicorn.address, gunicorn)


def address(variable: str) -> dict[str, str]:
    return {variable: address_of(variable, ADDRESSES[variable])}


def services() -> dict[str, str]:
    return address("DHAGA_POSTGRES") | address("DHAGA_REDIS")


both = pytest.mark.parametrize("door", [SERVE, GUNICORN])


# ---- WSGI


@both
def test_blocking_views_wait_together_by_the_documented_command(door: str, tmp_path: Path) -> None:
    pytest.importorskip("psycopg2")
    pytest.importorskip("asgiref")  # for Flask's coroutine views
    with served(door, "flask_blocking", tmp_path, **services()) as site:
        for way, crowd in WAYS.items():
            assert site.get_together(f"/meet/{way}/{crowd}", crowd) == {b"%d" % crowd}, way
            assert site.get("/forget") == "forgotten"
        assert site.get_together("/async", FEW) == {b"async view"}
        assert site.get_together("/run", FEW) == {b"asyncio.run"}
        assert site.get("/patched") == "True"


@both
def test_an_app_that_patches_in_its_first_line_is_served(door: str, tmp_path: Path) -> None:
    with served(door, "flask_patched", tmp_path) as site:
        assert site.get_together(f"/meet/sleep/{FEW}", FEW) == {b"%d" % FEW}


@both
def test_djangos_orm_waits_in_each_request(door: str, tmp_path: Path) -> None:
    pytest.importorskip("django")
    pytest.importorskip("psycopg2")
    with served(door, "django_orm", tmp_path, **address("DHAGA_POSTGRES")) as site:
        assert site.get_together(f"/meet/django/{FEW}", FEW) == {b"%d" % FEW}


@both
def test_without_the_patch_nothing_is_patched(door: str, tmp_path: Path) -> None:
    option = ["--no-patch"] if door == SERVE else ["--env", "DHAGA_PATCH=0"]
    with served(door, "flask_blocking", tmp_path, *option) as site:
        assert site.get("/patched") == "False"
    with served(door, "flask_blocking", tmp_path, DHAGA_PATCH="0") as site:
        assert site.get("/patched") == "False"


def test_gunicorn_patches_after_the_preload_of_an_app(tmp_path: Path) -> None:
    with served(GUNICORN, "flask_blocking", tmp_path, "--preload") as site:
        assert site.get_together(f"/meet/sleep/{CROWD}", CROWD) == {b"%d" % CROWD}


def test_gunicorn_knows_the_short_name_in_a_patched_process(tmp_path: Path) -> None:
    app = f"{DOORS}.flask_blocking:app"
    options = ("-b", "127.0.0.1:0")
    with Gunicorn(tmp_path / "log", *options, app=app, kind="dhaga", launcher=("-m", "dhaga")) as gunicorn:
        gunicorn.workers()
        assert Site(gunicorn.address, gunicorn).get_together(f"/meet/sleep/{CROWD}", CROWD) == {b"%d" % CROWD}


# ---- what could not be patched


LATE = EARLY + "import sys\nfrom dhaga.__main__ import main\nsys.exit(main(sys.argv[1:]))"
"""A program that comes first, and is none of the commands that restart themselves."""

NO_RESTART = "-E"
"""The option of Python with which it does not read PYTHONPATH, so that no restart helps."""


def test_serve_does_not_start_unpatched() -> None:
    with Running(ROOT, "-c", LATE, "serve", f"{DOORS}.flask_blocking:app", "--bind", "127.0.0.1:0") as running:
        assert running.end() == 1
        (line,) = running.log
        assert line.startswith("python -m dhaga serve is not started, because it would run unpatched")
        assert "the classes of the program, as __main__.Early is derived from threading.Thread" in line


def test_serve_that_need_not_be_patched_says_once_that_it_could_not() -> None:
    options = ["--bind", "127.0.0.1:0", "--workers", "2", "--no-require-patch"]
    with Running(ROOT, "-c", LATE, "serve", f"{DOORS}.flask_blocking:app", *options) as running:
        running.begin(2)
        host, _, port = running.address.partition(":")
        assert Site((host, int(port)), running).get("/patched") == "False"
        running.signal(signal.SIGTERM)
        assert running.end() == 0
    (line,) = [line for line in running.log if "unpatched" in line]
    assert "the classes of the program, as __main__.Early is derived from threading.Thread" in line


def test_gunicorn_restarts_itself_where_its_settings_come_too_early(tmp_path: Path) -> None:
    with served(GUNICORN, "flask_blocking", tmp_path, hooks=EARLY) as site:
        assert site.get("/patched") == "True"
        assert not site.end.said("unpatched")


def test_gunicorn_says_once_that_it_could_not_patch_and_names_the_command_that_does(tmp_path: Path) -> None:
    with served(GUNICORN, "flask_blocking", tmp_path, "--workers", "2", hooks=EARLY, option=NO_RESTART) as site:
        site.end.says("Worker up", 2)
        assert site.get("/patched") == "False"
        (line,) = site.end.said(".*unpatched.*")
        assert "`python -m dhaga -m gunicorn -k dhaga …`" in line


def test_gunicorn_that_must_be_patched_does_not_start_without(tmp_path: Path) -> None:
    app = f"{DOORS}.flask_blocking:app"
    options = ("-b", "127.0.0.1:0", "--env", "DHAGA_PATCH=require")
    with Gunicorn(tmp_path / "log", *options, app=app, hooks=EARLY, launcher=(NO_RESTART,)) as gunicorn:
        assert gunicorn.ends() == 3  # WORKER_BOOT_ERROR
        assert gunicorn.said("PatchError: .*Early is derived from threading.Thread")


# ---- ASGI


def test_an_asgi_app_is_refused_at_the_start_with_the_command_that_serves_it(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    name = f"{DOORS}.fastapi_blocking:app"
    with Running(ROOT, "-m", "dhaga", "serve", name, "--bind", "127.0.0.1:0") as running:
        assert running.end() == 1
        assert any(line.endswith(f"python -m dhaga -m uvicorn {name}") for line in running.log)
    with Gunicorn(tmp_path / "log", "-b", "127.0.0.1:0", app=name) as gunicorn:
        assert gunicorn.ends() == 4  # gunicorn's status where an app does not load
        assert gunicorn.said(f"python -m dhaga -m uvicorn {name}\n")


def test_that_command_serves_it_with_its_blocking_endpoints_as_dhagas() -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with Running(ROOT, "-m", "dhaga", "-m", "uvicorn", f"{DOORS}.fastapi_blocking:app", "--port", "0") as running:
        (port,) = running.wait_for(r"running on http://127.0.0.1:(\d+)")
        site = Site(("127.0.0.1", int(port)), running)
        assert site.get_together(f"/meet/{FEW}", FEW) == {b"%d" % FEW}
        assert site.get("/async") == '"async"'
        running.signal(signal.SIGTERM)
        running.end()


# ---- WebSockets


@both
def test_flask_sock_serves_real_clients(door: str, tmp_path: Path) -> None:
    import websocket

    with served(door, "flask_sockets", tmp_path) as site, ExitStack() as stack:
        url = "ws://{}:{}".format(*site.address)
        clients = [websocket.create_connection(f"{url}/echo", timeout=PATIENCE) for _ in range(CROWD)]
        for client in clients:
            stack.callback(client.shutdown)
        messages = [str(number) for number in range(CROWD - 1)] + ["x" * 3_000_000]
        for client, message in zip(clients, messages, strict=True):
            client.send(message)
        assert [client.recv() for client in clients] == messages
        assert site.get("/") == "hello"  # and none of it has gone into another connection
        left = websocket.create_connection(f"{url}/bye", timeout=PATIENCE)
        assert left.recv() == "bye"
        opcode, data = left.recv_data()
        assert (opcode, data[:2]) == (websocket.ABNF.OPCODE_CLOSE, (1000).to_bytes(2, "big"))
        with suppress(ConnectionResetError):  # the answer to the close frame may find no reader any more
            assert left.sock.recv(100) == b""  # no head, no end of chunks
        left.shutdown()


@both
@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_flask_socketio_serves_real_clients(door: str, transport: str, tmp_path: Path) -> None:
    pytest.importorskip("socketio")
    with served(door, "flask_sockets", tmp_path) as site:
        command = [sys.executable, "-m", f"{DOORS}.socketio_clients", str(site.address[1]), transport, str(FEW)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * PATIENCE)
        assert (ended.stdout, ended.returncode) == (f"{FEW}\n", 0), ended.stderr


def test_websockets_of_two_os_threads_send_to_each_other(tmp_path: Path) -> None:
    import websocket

    options = "--threads", "2", "--max-connections", str(FEW // 2)  # of a thread: so each has half of them
    with served(SERVE, "flask_sockets", tmp_path, *options) as site, ExitStack() as stack:
        url = "ws://{}:{}/room".format(*site.address)
        clients = [websocket.create_connection(url, timeout=PATIENCE) for _ in range(FEW)]
        for client in clients:
            stack.callback(client.shutdown)
        threads = Counter(client.recv() for client in clients)
        assert sorted(threads.values()) == [FEW // 2, FEW // 2]
        messages = [str(number) for number in range(FEW)]
        for client, message in zip(clients, messages, strict=True):
            client.send(message)
        for client in clients:
            assert sorted(client.recv() for _ in range(FEW)) == sorted(messages)


def test_a_drain_does_not_wait_for_the_end_of_a_websocket(tmp_path: Path) -> None:
    import websocket

    with served(SERVE, "flask_sockets", tmp_path, "--graceful-timeout", "1000") as site:
        client = websocket.create_connection("ws://{}:{}/echo".format(*site.address), timeout=PATIENCE)
        client.send("abc")
        assert client.recv() == "abc"
        site.end.signal(signal.SIGTERM)
        assert site.end.end() == 0
        client.shutdown()


# ---- Celery

POOL = "dhaga.integrations.celery:TaskPool"
CUSTOM = {"CELERY_CUSTOM_WORKER_POOL": POOL}
SCRIPT = [str(Path(sys.executable).with_name("celery"))]


@contextmanager
def celery_worker(
    folder: Path, command: list[str], *options: str, tasks: int, **environment: str
) -> Iterator[tuple[list[Any], str]]:
    """Run a worker by a documented command, give it tasks, and yield their results, and its log."""
    import celery
    import redis
    from kombu import pools

    url = address_of("DHAGA_REDIS", ADDRESSES["DHAGA_REDIS"])
    name = f"dhaga-door-{uuid.uuid4().hex[:12]}"
    log = folder / "log"
    words = [*command, "-A", f"{DOORS}.celery_blocking", "worker", "--concurrency", "1000", *options]
    more = {"PYTHONPATH": str(ROOT), "DOOR_NAME": name, "DOOR_REDIS": url, **environment}
    app = celery.Celery(name, broker=url, backend=url, set_as_current=False)
    keys = {"global_keyprefix": f"{name}:"}
    app.conf.update(task_default_queue=name, broker_transport_options=keys, result_backend_transport_options=keys)
    with log.open("wb") as file:
        worker = subprocess.Popen(
            [*words, "--without-gossip", "--without-mingle", "--loglevel", "info"],
            cwd=ROOT,
            env={**os.environ, **more},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        results = [app.send_task("meet", [tasks]) for _ in range(tasks)]
        try:
            found = [result.get(timeout=2 * LONG) for result in results]
        except celery.exceptions.TimeoutError as error:
            error.add_note(f"the worker ended with {worker.poll()}; its log:\n{log.read_text()[-4000:]}")
            raise
        yield found, log.read_text()
        worker.terminate()
        assert worker.wait(LONG) == 0, log.read_text()
    finally:
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        with redis.Redis.from_url(url) as client:
            if found := list(client.scan_iter(match=f"*{name}*", count=1000)):
                client.delete(*found)
        app.backend.result_consumer.stop()
        app.backend.client.connection_pool.disconnect()
        pools.reset()
        app.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "options", "environment"),
    [
        (SCRIPT, ("-P", "custom"), CUSTOM),
        (SCRIPT, (), {"DOOR_POOL": POOL}),
        ([sys.executable, "-m", "dhaga", "-m", "celery"], ("-P", "dhaga"), {}),
    ],
    ids=["custom", "worker_pool", "dhaga"],
)
def test_blocking_tasks_wait_together_by_the_documented_commands(
    command: list[str], options: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("celery")
    with celery_worker(tmp_path, command, *options, tasks=CROWD, **environment) as (results, log):
        assert set(results) == {CROWD}
        assert "unpatched" not in log


NO_RESTART_OF_CELERY = [sys.executable, NO_RESTART, "-m", "celery"]


@pytest.mark.process
def test_celery_restarts_itself_where_the_app_comes_too_early(tmp_path: Path) -> None:
    pytest.importorskip("celery")
    with celery_worker(tmp_path, SCRIPT, tasks=FEW, DOOR_POOL=POOL, DOOR_LATE="1") as (results, log):
        assert set(results) == {FEW}
        assert "unpatched" not in log


@pytest.mark.process
def test_celery_says_once_that_it_could_not_patch_and_names_the_command_that_does(tmp_path: Path) -> None:
    pytest.importorskip("celery")
    with celery_worker(tmp_path, NO_RESTART_OF_CELERY, tasks=1, DOOR_POOL=POOL, DOOR_LATE="1") as (results, log):
        assert results == [1]
        (line,) = re.findall(".*unpatched.*", log)
        assert f"`import tests`, as {DOORS}.celery_blocking.Early is derived from threading.Thread" in line
        assert "`python -m dhaga -m celery -A … worker -P dhaga`" in line


@pytest.mark.process
def test_celery_does_not_patch_where_none_is_wanted(tmp_path: Path) -> None:
    pytest.importorskip("celery")
    with celery_worker(tmp_path, SCRIPT, tasks=1, DOOR_POOL=POOL, DOOR_LATE="1", DHAGA_PATCH="0") as (results, log):
        assert results == [1]
        assert "unpatched" not in log
