"""Timeouts of libraries, each tested with a silent peer: a plain and a patched run must print the same.

Run: ``python tests/kit/silent_peers.py`` and ``python -m dhaga tests/kit/silent_peers.py``. A case is an option of a
library that ends a wait. The program prints the outcome of each call, and whether the call ended too early. Missing
libraries and services are left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import ftplib
import multiprocessing
import multiprocessing.connection
import os
import select
import signal
import smtplib
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from tests.kit.certificates import certificate
from tests.kit.layers import full_listener, in_turn, report, said

SECONDS = 0.05
TIMEVAL = struct.pack("ll", 0, 50_000)
POSTGRES = os.environ.get("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
kept: list[Any] = []
"""Objects that must live until the end: peers, locks, transactions."""

Calls = Iterator[tuple[str, Callable[[], Any]]]


def silent() -> tuple[str, int]:
    """Return the address of a server that accepts connections and sends nothing."""
    kept.append(socket.create_server(("127.0.0.1", 0)))
    address: tuple[str, int] = kept[-1].getsockname()
    return address


def full() -> tuple[str, int]:
    """Return the address of a server that accepts no connection."""
    address: tuple[str, int] = full_listener().getsockname()
    return address


def quiet_pair(option: int | None = None) -> socket.socket:
    """Return a socket whose peer neither sends nor reads. ``option``: a socket timeout to set, such as SO_RCVTIMEO."""
    one, other = socket.socketpair()
    kept.extend((one, other))
    if option is not None:
        one.setsockopt(socket.SOL_SOCKET, option, TIMEVAL)
    return one


def within(call: Callable[[], Any], seconds: float = SECONDS) -> str:
    """Return the outcome of a call, and whether the call ended too early: well before its limit."""
    began = time.monotonic()
    outcome = said(call).partition(" (")[0]
    return f"{outcome}, too early" if time.monotonic() - began < seconds * 0.9 else outcome


def reachable(call: Callable[[], Any]) -> bool:
    with contextlib.suppress(Exception):
        call().close()
        return True
    return False


# ---- the standard library


def standard() -> Calls:
    sleeper = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]

    def popen(call: Callable[[Any], Any]) -> Callable[[], Any]:
        def run() -> Any:
            with subprocess.Popen(sleeper, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
                try:
                    return call(child)
                finally:
                    child.kill()

        return run

    yield "subprocess.run", lambda: subprocess.run(sleeper, timeout=SECONDS)
    yield "subprocess.check_output", lambda: subprocess.check_output(sleeper, timeout=SECONDS)
    yield "subprocess.run, input", lambda: subprocess.run(sleeper, input=bytes(300_000), timeout=SECONDS)
    yield "Popen.wait", popen(lambda child: child.wait(SECONDS))
    yield "Popen.communicate", popen(lambda child: child.communicate(timeout=SECONDS))
    yield "Popen.communicate, input", popen(lambda child: child.communicate(bytes(300_000), timeout=SECONDS))
    yield "urllib", lambda: urllib.request.urlopen("http://{}:{}".format(*silent()), timeout=SECONDS)
    yield "smtplib", lambda: smtplib.SMTP(*silent(), timeout=SECONDS)
    yield "ftplib", lambda: ftplib.FTP().connect(*silent(), timeout=SECONDS)
    yield "sigtimedwait", lambda: signal.sigtimedwait([signal.SIGUSR2], SECONDS)
    yield "select.poll", lambda: polled(quiet_pair(), SECONDS)
    yield "epoll", lambda: select.epoll().poll(SECONDS)
    ours, theirs = multiprocessing.Pipe()
    kept.append(theirs)
    yield "Connection.poll", lambda: ours.poll(SECONDS)
    yield "connection.wait", lambda: multiprocessing.connection.wait([ours], SECONDS)
    spawning = multiprocessing.get_context("spawn")
    queue, lock = spawning.Queue(), spawning.Lock()
    lock.acquire()
    kept.append(lock)
    yield "multiprocessing.Queue.get", lambda: queue.get(timeout=SECONDS)
    yield "multiprocessing.Lock", lambda: lock.acquire(timeout=SECONDS)
    libc = ctypes.CDLL(None)
    yield "ctypes, poll(2)", lambda: libc.poll(None, 0, 50)


def polled(sock: socket.socket, seconds: float) -> Any:
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return poller.poll(seconds * 1000)


# ---- TLS


def tls() -> Calls:
    """Yield the cases of TLS. After SO_RCVTIMEO or SO_SNDTIMEO, ``ssl`` tries again: the peers are late, not silent."""
    client, server = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    certificate().configure_cert(server)

    def connected(option: int, late: Callable[[Any], Any], early: bool = True) -> Any:
        """Connect. The peer calls ``late`` after three limits; unless ``early``, its handshake is as late."""
        one, other = socket.socketpair()

        def serve() -> None:
            if not early:
                time.sleep(3 * SECONDS)
            theirs = server.wrap_socket(other, server_side=True)
            kept.append(theirs)
            shaken.wait()
            time.sleep(3 * SECONDS)
            late(theirs)

        shaken = threading.Event()
        threading.Thread(target=serve, daemon=True).start()
        if not early:
            one.setsockopt(socket.SOL_SOCKET, option, TIMEVAL)
        sock = client.wrap_socket(one)
        kept.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, option, TIMEVAL)
        shaken.set()
        return sock

    def answered(call: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: call(connected(socket.SO_RCVTIMEO, lambda peer: peer.sendall(b"x\n")))

    def drain(peer: Any) -> None:
        while peer.recv(100_000):
            pass

    yield "ssl, handshake, SO_RCVTIMEO", lambda: connected(socket.SO_RCVTIMEO, lambda _: None, False).version()
    yield "ssl, recv, SO_RCVTIMEO", answered(lambda sock: sock.recv(1))
    yield "ssl, recv_into, SO_RCVTIMEO", answered(lambda sock: sock.recv_into(bytearray(1)))
    yield "ssl, read, SO_RCVTIMEO", answered(lambda sock: sock.read(1))
    yield "ssl, makefile, SO_RCVTIMEO", answered(lambda sock: sock.makefile("rb").readline())
    yield "ssl, send, SO_SNDTIMEO", lambda: connected(socket.SO_SNDTIMEO, drain).send(bytes(3_000_000))
    yield "ssl, sendall, SO_SNDTIMEO", lambda: connected(socket.SO_SNDTIMEO, drain).sendall(bytes(3_000_000))
    yield "ssl, handshake, settimeout", lambda: in_time(quiet_pair(), client.wrap_socket)


def in_time(sock: Any, call: Callable[[Any], Any]) -> Any:
    sock.settimeout(SECONDS)
    return call(sock)


def pyopenssl() -> Calls:
    from OpenSSL import SSL

    def connection(sock: Any, server_side: bool = False) -> Any:
        context = SSL.Context(SSL.TLS_METHOD)
        if server_side:
            certificate().configure_cert(context)
        made = SSL.Connection(context, sock)
        (made.set_accept_state if server_side else made.set_connect_state)()
        return made

    def connected(option: int) -> Any:
        one, other = socket.socketpair()
        server, client = connection(other, True), connection(one)
        theirs = threading.Thread(target=server.do_handshake)
        theirs.start()
        client.do_handshake()
        theirs.join()
        kept.extend((server, client))
        one.setsockopt(socket.SOL_SOCKET, option, TIMEVAL)
        return client

    received, sent = socket.SO_RCVTIMEO, socket.SO_SNDTIMEO
    yield "pyOpenSSL, handshake, SO_RCVTIMEO", lambda: connection(quiet_pair(received)).do_handshake()
    yield "pyOpenSSL, recv, SO_RCVTIMEO", lambda: connected(received).recv(1)
    yield "pyOpenSSL, recv_into, SO_RCVTIMEO", lambda: connected(received).recv_into(bytearray(1))
    yield "pyOpenSSL, sendall, SO_SNDTIMEO", lambda: connected(sent).sendall(bytes(10_000_000))


# ---- databases


def sqlite() -> Calls:
    import sqlite3

    path = os.path.join(tempfile.mkdtemp(), "file.db")
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("create table t (x)")
    holder.execute("begin exclusive")
    kept.append(holder)

    def opened(timeout: float = SECONDS) -> Any:
        connection = sqlite3.connect(path, timeout=timeout, check_same_thread=False)
        kept.append(connection)
        return connection

    def by_pragma() -> Any:
        connection = opened(600)
        connection.execute("pragma busy_timeout = 50")
        return connection.execute("insert into t values (1)")

    yield "sqlite3, execute", lambda: opened().execute("insert into t values (1)")
    yield "sqlite3, select", lambda: opened().execute("select * from t").fetchall()
    yield "sqlite3, executemany", lambda: opened().executemany("insert into t values (?)", [(1,)])
    yield "sqlite3, executescript", lambda: opened().executescript("insert into t values (1)")
    yield "sqlite3, pragma busy_timeout", by_pragma


def postgres() -> Calls:
    import psycopg
    import psycopg_pool

    quiet = "host={} port={} user=x dbname=x".format(*silent())
    yield (
        "psycopg, connect_timeout, silent",
        lambda: within(lambda: psycopg.connect(quiet, connect_timeout=2), 2),
    )
    hosts = "host={0},{0} port={1},{2} user=x dbname=x".format(*silent(), full()[1])
    yield "psycopg, connect_timeout, hosts", lambda: within(lambda: psycopg.connect(hosts, connect_timeout=2), 4)
    pool = psycopg_pool.ConnectionPool(quiet, open=False, min_size=1, kwargs={"connect_timeout": 2})
    kept.append(pool)
    yield "psycopg_pool, wait", lambda: (pool.open(), pool.wait(timeout=SECONDS))
    yield "psycopg_pool, getconn", lambda: (pool.open(), pool.getconn(timeout=SECONDS))
    if not reachable(lambda: psycopg.connect(POSTGRES)):
        return

    def run(*statements: str, **options: Any) -> Any:
        connection = psycopg.connect(POSTGRES, **options)
        kept.append(connection)
        return [connection.execute(statement) for statement in statements][-1]

    yield "psycopg, statement_timeout", lambda: run("select pg_sleep(600)", options="-c statement_timeout=50")
    holder = psycopg.connect(POSTGRES)
    holder.execute(f"select pg_advisory_lock({os.getpid()})")
    kept.append(holder)
    yield "psycopg, lock_timeout", lambda: run("set lock_timeout = 50", f"select pg_advisory_lock({os.getpid()})")
    yield "psycopg, notifies", lambda: list(psycopg.connect(POSTGRES, autocommit=True).notifies(timeout=SECONDS))


def postgres_2() -> Calls:
    import psycopg2

    host, port = silent()
    yield (
        "psycopg2, connect_timeout",
        lambda: within(lambda: psycopg2.connect(host=host, port=port, user="x", dbname="x", connect_timeout=2), 2),
    )
    if reachable(lambda: psycopg2.connect(POSTGRES)):
        yield (
            "psycopg2, statement_timeout",
            lambda: (
                psycopg2.connect(POSTGRES, options="-c statement_timeout=50").cursor().execute("select pg_sleep(600)")
            ),
        )


def mysql() -> Calls:
    import pymysql

    def connect(address: tuple[str, int], **options: Any) -> Any:
        return pymysql.connect(host=address[0], port=address[1], user="root", **options)

    yield "PyMySQL, connect_timeout, full", lambda: within(lambda: connect(full(), connect_timeout=1), 1)
    real = "127.0.0.1", 3306
    if reachable(lambda: connect(real)):
        yield (
            "PyMySQL, read_timeout",
            lambda: within(lambda: connect(real, read_timeout=1).cursor().execute("select sleep(60)"), 1),
        )


def redises() -> Calls:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    def client(address: tuple[str, int], **options: Any) -> Any:
        return redis.Redis(*address, retry=Retry(NoBackoff(), 0), **options)

    yield "redis, socket_timeout", lambda: client(silent(), socket_timeout=SECONDS).ping()
    yield "redis, socket_connect_timeout", lambda: client(full(), socket_connect_timeout=SECONDS).ping()
    if not reachable(lambda: pinged(redis.Redis())):
        return
    name = f"silent-{os.getpid()}"
    real = "127.0.0.1", 6379
    pool = redis.BlockingConnectionPool(max_connections=1, timeout=SECONDS)
    kept.append(pool.get_connection())
    yield "redis, pool", pool.get_connection
    yield "redis, blpop", lambda: client(real).blpop(f"{name}-list", timeout=1)
    lock = client(real).lock(name, timeout=120)
    lock.acquire()
    yield "redis, lock", lambda: client(real).lock(name, blocking_timeout=SECONDS, sleep=0.001).acquire()

    def message() -> Any:
        heard = client(real).pubsub(ignore_subscribe_messages=True)
        heard.subscribe(name)
        heard.get_message(timeout=30)
        return heard.get_message(timeout=SECONDS)

    yield "redis, get_message", message


def pinged(client: Any) -> Any:
    client.ping()
    return client


# ---- messages and calls


def zeromq() -> Calls:
    import zmq

    context = zmq.Context()
    kept.append(context)

    def made(kind: int, **options: int) -> Any:
        sock = context.socket(kind)
        sock.linger = 0
        for option, value in options.items():
            setattr(sock, option, value)
        kept.append(sock)
        return sock

    def bound(kind: int, **options: int) -> Any:
        sock = made(kind, **options)
        sock.bind("tcp://127.0.0.1:*")
        return sock

    def poller() -> Any:
        found = zmq.Poller()
        found.register(bound(zmq.PULL))
        return found.poll(50)

    def lingering() -> Any:
        """End a context that has a message for an absent peer."""
        own = zmq.Context()
        sock = own.socket(zmq.PUSH)
        sock.linger = 50
        sock.connect("tcp://127.0.0.1:1")
        sock.send(b"x")
        sock.close()
        return own.term()

    def request() -> Any:
        sock = made(zmq.REQ, rcvtimeo=50)
        sock.connect("tcp://{}:{}".format(*silent()))
        sock.send(b"x")
        return sock.recv()

    yield "zmq, RCVTIMEO", lambda: bound(zmq.PULL, rcvtimeo=50).recv()
    yield "zmq, RCVTIMEO, multipart", lambda: bound(zmq.PULL, rcvtimeo=50).recv_multipart()
    yield "zmq, RCVTIMEO, in a request", request
    yield "zmq, SNDTIMEO", lambda: bound(zmq.PUSH, sndtimeo=50).send(b"x")
    yield "zmq, poll", lambda: bound(zmq.PULL).poll(50)
    yield "zmq, Poller", poller
    yield "zmq, select", lambda: zmq.select([bound(zmq.PULL)], [], [], SECONDS)
    yield "zmq, LINGER", lingering


def grpcs() -> Calls:
    import grpc

    def call(address: tuple[str, int], kind: str = "unary_unary") -> Any:
        channel = grpc.insecure_channel("{}:{}".format(*address), [("grpc.use_local_subchannel_pool", 1)])
        kept.append(channel)
        return channel if not kind else getattr(channel, kind)("/test/call")

    def code(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except grpc.RpcError as error:
            return error.code()

    yield "grpc, timeout", lambda: code(lambda: call(silent())(b"", timeout=SECONDS))
    yield "grpc, timeout, full", lambda: code(lambda: call(full())(b"", timeout=SECONDS))
    yield (
        "grpc, timeout, wait_for_ready",
        lambda: code(lambda: call(("127.0.0.1", 1))(b"", timeout=SECONDS, wait_for_ready=True)),
    )
    yield "grpc, with_call", lambda: code(lambda: call(silent()).with_call(b"", timeout=SECONDS))
    yield "grpc, future", lambda: code(lambda: call(silent()).future(b"", timeout=SECONDS).result())
    yield "grpc, future.result", lambda: call(silent()).future(b"").result(timeout=SECONDS)
    yield "grpc, stream", lambda: code(lambda: list(call(silent(), "unary_stream")(b"", timeout=SECONDS)))
    yield (
        "grpc, streams",
        lambda: code(lambda: list(call(silent(), "stream_stream")(iter([b""]), timeout=SECONDS))),
    )
    yield "grpc, ready", lambda: grpc.channel_ready_future(call(silent(), "")).result(timeout=SECONDS)
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(1))
    server.start()
    yield "grpc, wait_for_termination", lambda: server.wait_for_termination(SECONDS)


GROUPS = standard, tls, pyopenssl, sqlite, postgres, postgres_2, mysql, redises, zeromq, grpcs


def main() -> None:
    signal.signal(signal.SIGALRM, lambda *_: report())
    signal.alarm(100)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    wanted = os.environ.get("SILENT_PEERS", "")
    cases: dict[str, Callable[[], Any]] = {}
    for group in GROUPS:
        with contextlib.suppress(ImportError):
            cases |= {name: lambda call=call: within(call) for name, call in group() if wanted in name}
    in_turn("limit", cases)
    report()


if __name__ == "__main__":
    main()
