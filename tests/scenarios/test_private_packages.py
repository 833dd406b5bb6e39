"""Private copies of real packages and real servers: a hundred dhagas wait at once, and the public copy is unchanged."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import textwrap
import urllib.parse
from collections.abc import Iterator

import pytest

from tests.kit.scripts import ROOT, prints

pytestmark = pytest.mark.slow

BEGIN = """
import _thread, os, queue, select, socket, ssl, sys, threading, time
import dhaga
from dhaga.monkey import TABLE, patched_imports
from pkgutil import resolve_name

URL, COUNT = os.environ["URL"], 100
names = [(row.module, name) for row in TABLE if row.when for name in row.names]
standard = [(module, name, getattr(resolve_name(module), name)) for module, name in names]

def all_at_once(fn):
    began = time.monotonic()
    dhagas = [dhaga.spawn(fn, n) for n in range(COUNT)]
    answers = [d.result(timeout=60) for d in dhagas]
    assert threading.active_count() == 1, threading.enumerate()
    return answers, time.monotonic() - began

def is_untouched():
    return all(getattr(resolve_name(module), name) is value for module, name, value in standard)
"""


def address_of(variable: str, default: str) -> str:
    """Return the address of a service. Skips the test if the service does not answer."""
    address = os.environ.get(variable, default)
    place = urllib.parse.urlsplit(address)
    try:
        socket.create_connection((place.hostname or "127.0.0.1", place.port or 0), timeout=5).close()
    except OSError as error:
        pytest.skip(f"{variable}: nobody answers at {address}: {error}")
    return address


@contextlib.contextmanager
def served(name: str) -> Iterator[str]:
    """Run a server in a process of its own, and yield its URL."""
    command = [sys.executable, "-m", "tests.packages.services", name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def check(url: str, program: str) -> None:
    assert prints(BEGIN + textwrap.dedent(program), URL=url) == ["done"]


def test_pymysql_waits_a_hundred_times_at_once() -> None:
    pytest.importorskip("pymysql")
    check(
        address_of("DHAGA_MARIADB", "mysql://root@127.0.0.1:3306/test"),
        """
        import urllib.parse
        import pymysql as public

        with patched_imports("pymysql"):
            import pymysql
        url = urllib.parse.urlsplit(URL)

        def connection():
            while True:
                try:
                    return pymysql.connect(host=url.hostname, port=url.port, user=url.username, ssl_disabled=True)
                except pymysql.err.OperationalError as error:
                    if error.args[0] != 1040:  # too many connections: those of other tests
                        raise
                    dhaga.sleep(0.1)

        def work(n):
            with connection() as c, c.cursor() as cursor:
                cursor.execute("select %s, sleep(0.5)", (n,))
                return cursor.fetchone()

        answers, took = all_at_once(work)
        assert answers == [(n, 0) for n in range(COUNT)] and took < COUNT * 0.5 / 2, took
        assert pymysql is not public and sys.modules["pymysql"] is public
        assert pymysql.connections.socket.socket is dhaga.socket.socket
        assert public.connections.socket.socket is socket.socket and is_untouched()
        print("done")
        """,
    )


def test_redis_blocks_a_hundred_times_at_once() -> None:
    pytest.importorskip("redis")
    check(
        address_of("DHAGA_REDIS", "redis://127.0.0.1:6379/0"),
        """
        with patched_imports("redis"):
            import redis
        assert "redis" not in sys.modules
        client = redis.Redis.from_url(URL, max_connections=COUNT + 1)
        key = f"dhaga:imports:{os.getpid()}"

        def pushes():
            while client.info("clients")["blocked_clients"] < COUNT:
                dhaga.sleep(0.01)
            for n in range(COUNT):
                client.rpush(f"{key}:{n}", n)

        pusher = dhaga.spawn(pushes)
        answers, _ = all_at_once(lambda n: client.blpop(f"{key}:{n}", timeout=20))
        assert answers == [(f"{key}:{n}".encode(), str(n).encode()) for n in range(COUNT)], answers
        pusher.join()
        listener = client.pubsub()
        listener.subscribe(key)
        assert listener.get_message(timeout=5)["type"] == "subscribe"
        client.close()
        import redis as public
        assert public is not redis and public.connection.socket is socket and is_untouched()
        print("done")
        """,
    )


def test_requests_wait_for_a_hundred_answers_at_once() -> None:
    pytest.importorskip("requests")
    with served("http") as url:
        check(
            url,
            """
            import urllib3 as public

            with patched_imports("requests"):
                import requests
            session = requests.Session()
            session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=COUNT, pool_block=True))
            answers, _ = all_at_once(lambda n: session.get(f"{URL}/together?count={COUNT}", timeout=20).json())
            assert answers == [{"at once": COUNT}] * COUNT
            assert session.post(f"{URL}/echo", data=b"x" * 1_000_000).content == b"x" * 1_000_000
            try:
                session.get(f"{URL}/never", timeout=0.05)
            except requests.exceptions.ReadTimeout as error:
                assert isinstance(error.args[0], requests.packages.urllib3.exceptions.ReadTimeoutError)
            assert requests.packages.urllib3 is not public and "requests" not in sys.modules
            assert public.util.connection.socket is socket and is_untouched()
            session.close()
            print("done")
            """,
        )


def test_boto3_waits_for_a_hundred_objects_at_once() -> None:
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    with served("s3") as url:
        check(
            url,
            """
            import botocore.httpsession as public

            with patched_imports("boto3"):
                import boto3
            client = boto3.client(
                "s3", endpoint_url=URL, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b",
                config=boto3.session.Config(max_pool_connections=COUNT),
            )
            client.create_bucket(Bucket="private")
            client.put_object(Bucket="private", Key=f"together-{COUNT}", Body=b"all")

            def work(n):
                return client.get_object(Bucket="private", Key=f"together-{COUNT}")["Body"].read()

            answers, _ = all_at_once(work)
            assert answers == [b"all"] * COUNT
            client.upload_file(os.__file__, "private", "file")  # by s3transfer's threads
            assert client.get_object(Bucket="private", Key="file")["Body"].read() == open(os.__file__, "rb").read()
            try:
                client.get_object(Bucket="private", Key="nothing")
            except client.exceptions.NoSuchKey:
                print("done")
            client.close()
            assert "boto3" not in sys.modules and client.meta.events is not None
            assert public.socket is socket and is_untouched() and threading.active_count() == 1
            """,
        )
