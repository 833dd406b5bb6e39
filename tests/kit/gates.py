"""Waits, each with the call that ends it, and ways to send this process a signal, for random programs."""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

PAUSE = 0.003
"""Number of seconds from the beginning of a wait to the call that ends it."""


class Gate:
    """A wait that happens once: ``wait`` returns after the call of ``end``."""

    def __init__(self, wait: Callable[[], Any], end: Callable[[], Any]) -> None:
        self.wait = wait
        self.end = end


def simple_queue() -> Gate:
    items: Any = queue.SimpleQueue()
    return Gate(items.get, lambda: items.put("item"))


def ordinary_queue() -> Gate:
    items: Any = queue.Queue()
    return Gate(items.get, lambda: items.put("item"))


def event() -> Gate:
    happened = threading.Event()
    return Gate(happened.wait, happened.set)


def lock() -> Gate:
    held = threading.Lock()
    held.acquire()
    return Gate(held.acquire, held.release)


def semaphore() -> Gate:
    none_left = threading.Semaphore(0)
    return Gate(none_left.acquire, none_left.release)


def pipe() -> Gate:
    reader, writer = os.pipe()
    return Gate(lambda: os.read(reader, 9), lambda: os.write(writer, b"bytes"))


def sockets() -> Gate:
    one, other = socket.socketpair()
    return Gate(lambda: one.recv(9), lambda: other.send(b"bytes"))


def polled() -> Gate:
    reader, writer = os.pipe()
    return Gate(lambda: len(select.select([reader], [], [])[0]), lambda: os.write(writer, b"x"))


def flag() -> Gate:
    flags: list[int] = []

    def wait() -> str:
        while not flags:
            time.sleep(0.001)
        return "flag"

    return Gate(wait, lambda: flags.append(1))


def thread() -> Gate:
    inner = lock()
    started = threading.Thread(target=inner.wait)
    started.start()
    return Gate(started.join, inner.end)


def child() -> Gate:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writer)
        os.read(reader, 1)
        os._exit(3)
    os.close(reader)
    return Gate(lambda: os.waitpid(pid, 0)[1] >> 8, lambda: os.close(writer))


REENTRANT = (simple_queue, lock, pipe, sockets, polled, flag, child)
"""Gates that a signal handler may end. The interrupted code may hold the inner locks of the other gates."""

GATES = (*REENTRANT, ordinary_queue, event, semaphore, thread)


def senders(number: int) -> dict[str, Callable[[], Any]]:
    """Return the ways to send this process a signal. Each is a function, whose result must be called afterwards."""

    def by_thread(send: Callable[[], object]) -> Callable[[], Any]:
        def start() -> Any:
            sender = threading.Thread(target=lambda: (time.sleep(PAUSE), send()))
            sender.start()
            return sender.join

        return start

    def by_child() -> Any:
        me = os.getpid()
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            # The parent writes after the fork: a handler that raises in a hook of a fork leaves CPython's lock held.
            os.read(reader, 1)
            time.sleep(PAUSE)
            os.kill(me, number)
            os._exit(0)
        os.write(writer, b"x")
        return lambda: os.waitpid(pid, 0)

    def by_timer() -> Any:
        signal.setitimer(signal.ITIMER_REAL, PAUSE)
        return lambda: None

    main = threading.main_thread().ident or 0
    ways = {
        "kill": lambda: (os.kill(os.getpid(), number), lambda: None)[1],
        "raise": lambda: (signal.raise_signal(number), lambda: None)[1],
        "thread": by_thread(lambda: os.kill(os.getpid(), number)),
        "thread to main": by_thread(lambda: signal.pthread_kill(main, number)),
        "child": by_child,
    }
    return {**ways, "timer": by_timer} if number == signal.SIGALRM else ways
