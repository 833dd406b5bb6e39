"""The ways to start code with the standard library. ``threads`` uses the modules of ``modules.py``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.pool import ThreadPool
from typing import Any

from .modules import _thread, queue, threading
from .states import leave
from .ways import (
    CLOSING,
    LOCAL,
    PATIENCE,
    App,
    Start,
    Work,
    add_way,
    call_back,
    made_by_the_first,
    servers,
    until_done,
    way,
)


def threads() -> None:
    def run(kind: Any, *args: Any, **options: Any) -> None:
        thread = kind(*args, **options)
        thread.start()
        thread.join(PATIENCE)

    class Subclass(threading.Thread):
        def __init__(self, work: Work) -> None:
            super().__init__()
            self.work = work

        def run(self) -> None:
            self.work()

    add_way("Thread", lambda work: run(threading.Thread, target=work))
    add_way("Thread, a subclass", lambda work: run(Subclass, work))
    add_way("Timer", lambda work: run(threading.Timer, 0, work))
    add_way("start_new_thread", partial(until_done, lambda work: _thread.start_new_thread(work, ())))
    if sys.version_info >= (3, 13):
        add_way("start_joinable_thread", partial(until_done, lambda work: _thread.start_joinable_thread(work)))
    if sys.version_info >= (3, 14):

        def in_a_context(work: Work) -> None:
            given = Context()
            given.run(leave, "the context given")
            run(threading.Thread, target=work, context=given)

        add_way("Thread in a context", in_a_context)


def executors() -> None:
    @way("ThreadPoolExecutor.submit")
    def submit() -> Iterator[Start]:
        with ThreadPoolExecutor(1) as pool:
            yield lambda work: pool.submit(work).result(PATIENCE)

    @way("ThreadPoolExecutor.map")
    def map_() -> Iterator[Start]:
        with ThreadPoolExecutor(1) as pool:
            yield lambda work: list(pool.map(work, [0]))

    @way("ThreadPoolExecutor, initializer")
    def initializer() -> Iterator[Start]:
        def start(work: Work) -> None:
            with ThreadPoolExecutor(1, initializer=work) as pool:
                pool.submit(int).result(PATIENCE)

        yield start

    @way("Future.add_done_callback")
    def callback() -> Iterator[Start]:
        with ThreadPoolExecutor(1) as pool:
            yield partial(call_back, pool)

    for name in ("apply", "map", "apply_async, callback"):
        way(f"multiprocessing ThreadPool.{name}")(partial(multiprocessing_pool, name))


def multiprocessing_pool(name: str) -> Iterator[Start]:
    get = made_by_the_first(partial(ThreadPool, 1))
    starts: dict[str, Start] = {
        "apply": lambda work: get().apply(work),
        "map": lambda work: get().map(work, [0]),
        "apply_async, callback": partial(until_done, lambda work: get().apply_async(int, callback=work)),
    }
    yield starts[name]
    get().close()
    get().join()


def coroutines() -> None:
    def on_loop(how: Callable[[Any, Work], object]) -> Start:
        """Return a way in which the loop calls the code, and the starter awaits this call."""

        async def start(work: Work) -> None:
            loop, called = asyncio.get_running_loop(), asyncio.Event()

            def call(*_: object) -> None:
                work()
                loop.call_soon_threadsafe(called.set)

            how(loop, call)
            await asyncio.wait_for(called.wait(), PATIENCE)

        return start

    async def as_coroutine(work: Work) -> None:
        work()

    def read(loop: Any, work: Work) -> None:
        reader, writer = os.pipe()

        def call() -> None:
            loop.remove_reader(reader)
            os.close(reader)
            os.close(writer)
            work()

        loop.add_reader(reader, call)
        os.write(writer, b"x")

    def from_thread(loop: Any, work: Work) -> None:
        threading.Thread(target=lambda: asyncio.run_coroutine_threadsafe(as_coroutine(work), loop)).start()

    calls: dict[str, Callable[[Any, Work], object]] = {
        "call_soon": lambda loop, work: loop.call_soon(work),
        "call_later": lambda loop, work: loop.call_later(0, work),
        "call_soon_threadsafe": lambda loop, work: loop.call_soon_threadsafe(work),
        "add_reader": read,
        "run_coroutine_threadsafe": from_thread,
        "add_done_callback": lambda loop, work: loop.create_task(asyncio.sleep(0)).add_done_callback(work),
        "run_in_executor": lambda loop, work: loop.run_in_executor(None, work),
        "to_thread": lambda loop, work: loop.create_task(asyncio.to_thread(work)),
    }
    for name, how in calls.items():
        add_way(f"asyncio {name}", on_loop(how), "coroutine")
    add_way("asyncio create_task", lambda work: asyncio.create_task(as_coroutine(work)), "coroutine")
    add_way("asyncio.run", lambda work: asyncio.run(as_coroutine(work)), "main code", "thread")


def signals() -> None:
    @way("signal", "main code")
    def at_once() -> Iterator[Start]:
        yield partial(strike, lambda struck: signal.raise_signal(signal.SIGUSR1))

    @way("signal, while main code waits", "main code")
    def in_wait() -> Iterator[Start]:
        def start(struck: Any) -> None:
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            struck.wait(PATIENCE)

        yield partial(strike, start)

    def strike(start: Callable[[Any], object], work: Work) -> None:
        struck = threading.Event()

        def handler(*_: object) -> None:
            work()
            struck.set()

        former = signal.signal(signal.SIGUSR1, handler)
        start(struck)
        struck.wait(PATIENCE)
        signal.signal(signal.SIGUSR1, former)


@contextmanager
def http_server(app: App) -> Iterator[Any]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            app(self.path[1:])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(LOCAL, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address
        server.shutdown()
        thread.join()


@contextmanager
def asyncio_server(app: App) -> Iterator[Any]:
    async def handle(reader: Any, writer: Any) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).splitlines()[0]
        app(line.split()[1][1:].decode())
        writer.write(CLOSING)
        await writer.drain()
        writer.close()

    async def serve() -> None:
        leave("starter")
        async with await asyncio.start_server(handle, *LOCAL) as server:
            end = asyncio.Event()
            started.put((server.sockets[0].getsockname(), asyncio.get_running_loop(), end))
            await end.wait()

    started: Any = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    address, loop, end = started.get(timeout=PATIENCE)
    yield address
    loop.call_soon_threadsafe(end.set)
    thread.join()


def all_ways() -> None:
    threads()
    executors()
    coroutines()
    signals()
    servers.update({"ThreadingHTTPServer": http_server, "asyncio.start_server": asyncio_server})
