"""Run as a program: delete or replace each slot of each class that the fast paths know, and use the object then.

Each case is a forked child, because it may break its scheduler or crash. Prints: a line a case, with the outcomes of
the uses, or the signal that ended the child.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

import trustme

import dhaga
from dhaga import queue, socket, ssl, threading
from dhaga.http._server.response import Response
from tests._kernel.compiled_uses import BASE, FIELDS, HEAD, repeating_connection

DELETED = "deleted"
VALUES: dict[str, Any] = {DELETED: None, "None": None, "object": object(), "2**70": 2**70}
AT_ONCE = 40
CPU_SECONDS, SECONDS = 0.3, 4
"""A child that takes longer has hung, which is no crash: one case of six. Most sleep then, so that many may hang."""

SECONDS_TO_MAKE = 60
"""Seconds to make the objects: in a debug build forty handshakes at once take long."""

OF_TLS = ("tls", "tls's watcher", "openssl lock", "write lock")


class Objects:
    """One object of each class, and dhagas that wait."""

    def __init__(self, contexts: Any) -> None:
        self.lock, self.rlock = threading.Lock(), threading.RLock()
        self.event, self.permits, self.bounded = threading.Event(), threading.Semaphore(), threading.BoundedSemaphore()
        self.items, self.simple = queue.Queue[Any](), queue.SimpleQueue[Any]()
        self.near, self.far = socket.socketpair()
        self.me: Any = dhaga.current()
        self.scheduler = self.me.scheduler
        self.sleeper: Any = dhaga.spawn(dhaga.sleep, 1)
        self.reader: Any = dhaga.spawn(self.near.recv, 10)
        self.getter: Any = dhaga.spawn(self.simple.get)
        dhaga.sleep(0)
        self.tls = connected(*contexts) if contexts else None
        self.local = threading.local()
        self.local.name = "value"
        self.http = repeating_connection()
        self.response = Response(self.http, "GET", "HTTP/1.1")

    def targets(self) -> dict[str, Any]:
        found = {
            "caller": self.me,
            "getter": self.getter,
            "scheduler": self.scheduler,
            "new queue": self.scheduler.new_queues[1],
            "timers": self.scheduler.timers,
            "poller": self.scheduler.poller,
            "lock": self.lock,
            "lock's queue": self.lock._waiters,
            "rlock": self.rlock,
            "event": self.event,
            "event's queue": self.event._waiters_,
            "semaphore": self.permits,
            "semaphore's queue": self.permits._waiters_,
            "bounded semaphore": self.bounded,
            "queue": self.items,
            "mutex": self.items.mutex,
            "getters": self.items._getters_,
            "simple queue": self.simple,
            "socket": self.near,
            "watcher": self.near.watcher_,
            "local": self.local,
            "connection": self.http,
            "idle timer": self.http.idle_timer,
            "request parser": self.http.parser,
            "limits": self.http.parser.limits,
            "server fields": self.http.server_fields,
            "response": self.response,
            "tls": self.tls,
            "tls's watcher": None if self.tls is None else self.tls.watcher_,
            "openssl lock": None if self.tls is None else self.tls.openssl_lock,
            "write lock": None if self.tls is None else self.tls.write_lock,
        }
        return {name: each for name, each in found.items() if each is not None}

    def uses(self) -> list[Callable[[], object]]:
        common: list[Callable[[], object]] = [
            *(lambda each=each: contend(each) for each in (self.lock, self.rlock, self.permits, self.bounded)),
            lambda: (self.rlock.acquire(), self.rlock.acquire(), self.rlock.release(), self.rlock.release()),
            lambda: self.event.wait(0.01),
            lambda: (dhaga.spawn(self.event.set), self.event.wait(1)),
            lambda: (self.items.put(1), self.items.get(), self.items.unfinished_tasks),
            lambda: (dhaga.spawn(self.items.put, 2), self.items.get(timeout=1)),
            lambda: self.simple.put(3),
            lambda: (self.simple.put(4), self.simple.get(timeout=1)),
            lambda: dhaga.sleep(0),
            lambda: dhaga.sleep(0.001),
            lambda: dhaga.spawn(int).result(timeout=1),
            lambda: self.near.send(b"abc"),
            lambda: self.near.sendall(b"abc"),
            lambda: (self.far.send(b"abc"), dhaga.sleep(0), self.reader.result(timeout=1)),
            lambda: (self.far.send(b"abcdef"), self.near.recv(3), self.near.recv_into(bytearray(10))),
            lambda: (dhaga.spawn(self.far.send, b"abc"), self.near.recv(10)),
            lambda: self.sleeper.wake(),
            lambda: self.scheduler.poller.poll(),
            lambda: (setattr(self.http.parser, "buffer", HEAD), self.http.parser.head(BASE)),
            lambda: (self.local.name, threading.get_ident()),
            lambda: self.http.fill_environ({}),
            lambda: (self.http.idle_timer.arm(1.0), self.http.idle_timer.arm(2.0)),
            lambda: self.response.start("200 OK", [*FIELDS]),
            lambda: (self.response.head(None), self.response.head(5, whole=True)),
        ]
        if self.tls is None:
            return common
        return [
            lambda: self.tls.write(b"x"),
            lambda: self.tls.sendall(b"x"),
            lambda: (dhaga.spawn(self.tls.peer.send, b"x"), self.tls.recv(1)),
            lambda: (self.tls.peer.send(b"xyz"), self.tls.read(1), self.tls.read(5, bytearray(5))),
        ]


def contend(what: Any) -> object:
    """Acquire a primitive in turns, in the caller and in another dhaga."""

    def take() -> bool:
        with what:
            dhaga.sleep(0)
        return bool(what.acquire(timeout=0.01)) and what.release() is None

    other = dhaga.spawn(take)
    return take(), other.result(timeout=1)


def tls_contexts() -> Any:
    """Return the TLS contexts of a server and a client that trusts it."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    return server, client


def connected(server: Any, client: Any) -> Any:
    """Return one end of a TLS connection; its ``peer`` is the other end. Both have read."""
    near, far = socket.socketpair()
    accepted = dhaga.spawn(server.wrap_socket, near, server_side=True)
    tls: Any = client.wrap_socket(far, server_hostname="localhost")
    tls.peer = accepted.result()
    for one, other in ((tls, tls.peer), (tls.peer, tls)):
        reader = dhaga.spawn(one.recv, 1)
        dhaga.sleep(0)
        other.send(b"x")
        reader.join()
    return tls


def slots_of(target: object) -> list[str]:
    return [name for name in dir(type(target)) if isinstance(getattr(type(target), name, None), MemberDescriptorType)]


def outcome(use: Callable[[], object]) -> str:
    try:
        return str(use())
    except BaseException as error:
        return type(error).__name__


def run_case(contexts: Any, target: str, name: str, value: str, pipe: int) -> None:
    """Alter the slot and call all uses. Writes: the outcome of each use, at once."""

    def body() -> None:
        objects = Objects(contexts if target in OF_TLS else None)
        altered = objects.targets()[target]
        uses = objects.uses()
        signal.alarm(SECONDS)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        slot = getattr(type(altered), name)
        if value == DELETED:
            slot.__delete__(altered)
        else:
            slot.__set__(altered, VALUES[value])
        for use in uses:
            os.write(pipe, f" {outcome(use)}".encode())

    os.nice(10)  # forty children at once would leave no CPU time to the tests beside this one
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS_TO_MAKE)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        dhaga.spawn(body).result()
    except BaseException as error:
        os.write(pipe, f" ended by {type(error).__name__}".encode())
    finally:
        os._exit(0)


def all_cases(contexts: Any, cases: list[tuple[str, str, str]]) -> None:
    """Run the cases, forty at a time. Prints: a line each."""
    running: dict[int, tuple[int, tuple[str, str, str]]] = {}
    waiting, done = list(reversed(cases)), {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            case = waiting.pop()
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                run_case(contexts, *case, write)
            os.close(write)
            running[read] = pid, case
        for read in select.select(list(running), [], [])[0]:
            told = os.read(read, 65536).decode()
            pid, case = running[read]
            done[case] = done.get(case, "") + told
            if not told:
                os.close(read)
                del running[read]
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if status not in (0, 1):  # 1: the kernel ends a program whose loop fails again and again
                    done[case] += (
                        f" signal {signal.Signals(-status).name}" if status < 0 else f" signal: none, status {status}"
                    )
    for case in cases:
        print(*case, ":", done[case])


if __name__ == "__main__":
    made = tls_contexts()
    every: list[tuple[str, str, str]] = []

    def find() -> None:
        for target, each in Objects(made).targets().items():
            every.extend((target, name, value) for name in slots_of(each) for value in VALUES)

    dhaga.spawn(find).result()
    all_cases(made, every)
    os._exit(0)
