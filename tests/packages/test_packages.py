"""Threaded programs with the packages of others, unchanged: ``python -m dhaga PROGRAM`` against servers that answer.

Each program (see ``programs``) is written for threads. It checks its results, and says as its last line how many of its
threads waited at the same time; what it waits for comes only once, or only while, all of them do.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kit.scripts import PATIENCE, ROOT
from tests.packages.services import SSHD
from tests.scenarios.test_asyncio_libraries import address_of

PROGRAMS = Path(__file__).parent / "programs"
FEW = 20
"""OS threads that a program may have: the main one, and 16 in which lookups of names (smtplib's getfqdn) may block."""

CORES = ("tokio-rt-worker",)
"""Names of OS threads that a package's core in Rust starts: one for each CPU, one for each look-up of a name."""

ADDRESSES = {
    "DHAGA_MARIADB": "mysql://root@127.0.0.1:3306/test",
    "DHAGA_MQTT": "mqtt://127.0.0.1:1883",
    "DHAGA_NATS": "nats://127.0.0.1:4222",
    "DHAGA_POSTGRES": "postgresql://postgres@127.0.0.1:5432/postgres",
    "DHAGA_RABBITMQ": "amqp://guest:guest@127.0.0.1:5672/%2F",
    "DHAGA_REDIS": "redis://127.0.0.1:6379/0",
}
"""Where the servers are that must be there already."""

LIMITED = ("DHAGA_MARIADB", "DHAGA_POSTGRES")
"""Those that may take fewer than 200 connections (151 and 100 as they come): the program uses all but some thirty."""


class Program(NamedTuple):
    """A program, the packages without which it is skipped, and what serves it.

    ``server``: the variable of ``ADDRESSES``, or the name of one of ``services``. ``count``: how many of its threads
    wait at once.
    """

    words: str
    packages: str = ""
    server: str = ""
    count: int = 200

    def arguments(self) -> list[str]:
        name, *arguments = self.words.split()
        return [str(PROGRAMS / f"{name}.py"), *arguments]


QUICK = (
    Program("redis_queues", "redis", "DHAGA_REDIS"),
    Program("pymysql_sleep", "pymysql", "DHAGA_MARIADB"),
    Program("socketserver_echo"),
)
OTHERS = (
    Program("apscheduler_jobs", "apscheduler"),
    Program("boto3_objects", "boto3 moto", "s3"),
    Program("executor_thousand"),
    Program("http_server"),
    Program("httpx_together", "httpx", "http"),
    Program("kombu_consumers", "kombu", "DHAGA_RABBITMQ"),
    Program("logging_handlers"),
    Program("multiprocessing_pool fork"),
    Program("multiprocessing_pool spawn"),
    Program("paramiko_commands", "paramiko", "sshd"),
    Program("pika_consumers", "pika", "DHAGA_RABBITMQ"),
    Program("psycopg2_sleep", "psycopg2", "DHAGA_POSTGRES"),
    Program("psycopg_sleep", "psycopg", "DHAGA_POSTGRES"),
    Program("requests_together", "requests", "http"),
    Program("smtplib_messages", "aiosmtpd", "smtp"),
    Program("sqlalchemy_pool psycopg", "sqlalchemy psycopg", "DHAGA_POSTGRES"),
    Program("sqlalchemy_pool psycopg2", "sqlalchemy psycopg2", "DHAGA_POSTGRES"),
    Program("sqlalchemy_pool pymysql", "sqlalchemy pymysql", "DHAGA_MARIADB"),
    Program("subprocess_commands"),
    Program("urllib3_together", "urllib3", "http"),
    Program("websocket_echo", "websocket", "websocket"),
    Program("xmlrpc_calls"),
)
COMPACT = (
    *(
        Program(f"http_clients {name}", package, "http", 20)
        for name, package in {
            "azure": "azure.core",
            "docker": "docker",
            "elastic": "elasticsearch",
            "google": "google.auth",
            "httplib2": "httplib2",
            "kubernetes": "kubernetes",
            "openai": "openai",
            "opensearch": "opensearchpy",
            "urllib": "",
            "zeep": "zeep",
        }.items()
    ),
    *(
        Program(f"first_answers {name}", package, "", 20)
        for name, package in {
            "clickhouse": "clickhouse_driver",
            "clickhouse_connect": "clickhouse_connect",
            "ftplib": "",
            "imaplib": "",
            "kafka": "kafka",
            "ldap3": "ldap3",
            "memcache": "pymemcache",
            "neo4j": "neo4j",
            "oracledb": "oracledb",
            "poplib": "",
            "pymongo": "pymongo",
            "snowflake": "snowflake.connector",
            "stomp": "stomp",
        }.items()
    ),
    Program("brokers nats", "nats", "DHAGA_NATS", 20),
    Program("brokers paho", "paho.mqtt", "DHAGA_MQTT", 20),
    Program("cassandra_queries", "cassandra", "", 20),
    Program("job_queues dramatiq", "dramatiq", "DHAGA_REDIS", 20),
    Program("job_queues huey", "huey", "DHAGA_REDIS", 20),
    Program("job_queues joblib", "joblib", "", 20),
    Program("local_waits filelock", "filelock", "", 20),
    Program("local_waits pexpect", "pexpect", "", 20),
    Program("local_waits schedule", "schedule", "", 20),
    Program("local_waits serial", "serial", "", 20),
    Program("local_waits tenacity", "tenacity", "", 20),
    Program("local_waits watchdog", "watchdog", "", 20),
    Program("mysql_connector_sleep", "mysql.connector", "DHAGA_MARIADB", 20),
    Program("oslo_threading", "oslo_service futurist cotyledon"),
    Program("own_servers aiosmtpd", "aiosmtpd", "", 20),
    Program("own_servers dns", "dns", "", 20),
    Program("own_servers waitress", "waitress", "", 20),
    Program("own_servers websockets", "websockets", "", 20),
    Program("own_servers zmq", "zmq", "", 20),
)
OFFLOADED = (
    Program("curl_cffi_together", "curl_cffi", "http", 50),
    Program("grpc_calls otlp", "opentelemetry.exporter.otlp.proto.grpc", "", 20),
    Program("grpc_calls plain", "grpc", "", 20),
    Program("grpc_calls pubsub", "google.pubsub_v1", "", 20),
    Program("http_clients pycurl", "pycurl", "http", 20),
    Program("kafka_polls", "confluent_kafka", "", 20),
)
"""What waits in C: each call has an OS thread of its own."""

PROGRAMS_RUN = (*QUICK, *OTHERS, *COMPACT, *OFFLOADED)


# ---- servers


class Servers:
    """Those of ``services``, each started when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.ports: dict[str, str] = {}

    def environment_of(self, name: str) -> dict[str, str]:
        """Start what a program needs. Returns: what it is told. Skips the test if nobody is there."""
        if not name:
            return {}
        if name in ADDRESSES:
            return {name: address_of(name, ADDRESSES[name])}
        if name not in self.ports:
            self.start(name)
        port = self.ports[name]
        return {
            "http": {"HTTP_URL": f"http://127.0.0.1:{port}"},
            "s3": {"S3_URL": f"http://127.0.0.1:{port}"},
            "smtp": {"SMTP_PORT": port},
            "sshd": {"SSH_PORT": port, "SSH_FOLDER": str(self.folder), "SSH_USER": getpass.getuser()},
            "websocket": {"WEBSOCKET_URL": f"ws://127.0.0.1:{port}/"},
        }[name]

    def start(self, name: str) -> None:
        if name == "sshd" and not Path(SSHD).exists():
            pytest.skip(f"there is no {SSHD}: set DHAGA_SSHD to where OpenSSH's is")
        self.processes[name] = process = subprocess.Popen(
            [sys.executable, "-m", "tests.packages.services", name],
            cwd=ROOT,
            env={**os.environ, "SSH_FOLDER": str(self.folder)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        self.ports[name] = process.stdout.readline().strip()
        wait_for_port(int(self.ports[name]))

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.communicate()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.stop()


def wait_for_port(port: int) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


# ---- running a program


class End(NamedTuple):
    """How a program has ended, and how many OS threads it had at most, as far as anybody has looked."""

    status: int
    out: str
    err: str
    threads: int


def run(program: Program, folder: Path, launcher: list[str], environment: dict[str, str]) -> End:
    """Run a program to its end, and watch its OS threads meanwhile.

    Some look for gevent, which another package of this environment brings: imported under the patch, it warns.
    """
    (folder / "gevent.py").write_text("raise ImportError('no part of this program')\n")
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        command = [sys.executable, "-X", "faulthandler", *launcher, *program.arguments()]
        path = os.pathsep.join([str(folder), str(ROOT)])
        child = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path, **environment}, cwd=folder, stdout=out, stderr=err
        )
        most, deadline = 0, time.monotonic() + PATIENCE
        while child.poll() is None:
            most = max(most, threads_of(child.pid))
            if time.monotonic() > deadline:
                child.send_signal(6)  # SIGABRT: it says where it is
                child.wait()
            time.sleep(0.01)
        out.seek(0)
        err.seek(0)
        return End(child.wait(), out.read(), err.read(), most)


def threads_of(pid: int) -> int:
    """Count a process's OS threads, but for those of a package's own core; 0 where nobody can tell."""
    with contextlib.suppress(OSError):
        names = [(thread / "comm").read_text().strip() for thread in Path(f"/proc/{pid}/task").iterdir()]
        return sum(name not in CORES for name in names)
    return 0


def peak_of(end: End) -> tuple[int, int]:
    """Return how many of a program's threads waited at once, and how many were to."""
    assert (end.status, end.err) == (0, ""), end
    _, peak, *of = end.out.split()
    return int(peak), int(of[-1]) if of else int(peak)


def check(program: Program, folder: Path, servers: Servers) -> None:
    for package in program.packages.split():
        if not is_installed(package):
            pytest.skip(f"needs {package}")
    end = run(program, folder, ["-m", "dhaga"], servers.environment_of(program.server))
    peak, wanted = peak_of(end)
    assert peak == wanted
    assert peak >= program.count or program.server in LIMITED
    if program not in OFFLOADED:
        assert end.threads <= FEW


def is_installed(package: str) -> bool:
    try:
        return package in sys.modules or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it is part of
        return False


@pytest.mark.once
@pytest.mark.parametrize("program", QUICK, ids=lambda program: program.words)
def test_a_threaded_program_runs_on_dhagas(program: Program, tmp_path: Path, servers: Servers) -> None:
    check(program, tmp_path, servers)


@pytest.mark.slow
@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.words)
def test_a_threaded_program_of_another_package_runs_on_dhagas(
    program: Program, tmp_path: Path, servers: Servers
) -> None:
    check(program, tmp_path, servers)


@pytest.mark.once
@pytest.mark.parametrize("program", COMPACT, ids=lambda program: program.words)
def test_twenty_threads_of_a_package_wait_at_once(program: Program, tmp_path: Path, servers: Servers) -> None:
    check(program, tmp_path, servers)


@pytest.mark.once
@pytest.mark.parametrize("program", OFFLOADED, ids=lambda program: program.words)
def test_what_waits_in_c_is_offloaded(program: Program, tmp_path: Path, servers: Servers) -> None:
    check(program, tmp_path, servers)


@pytest.mark.once
def test_the_same_program_has_its_threads_without_us(tmp_path: Path, servers: Servers) -> None:
    end = run(QUICK[0], tmp_path, [], servers.environment_of(QUICK[0].server))
    assert peak_of(end) == (200, 200)
    assert end.threads > 150
