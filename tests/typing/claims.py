"""What a type checker knows of programs that use Dhaga. Checked by mypy and pyright (test_types.py), never run.

``# type: ignore[…]`` marks an expected error: mypy reports one that is not needed, and pyright is given the same lines.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from typing import IO, Any, assert_type

import dhaga
from dhaga import Dhaga, Scheduler, Scope, queue, socket, threading
from dhaga.aio import run_in_dhaga
from dhaga.futures import Executor, Future
from dhaga.pool import Pool
from dhaga.servers import TCPServer


def repeat(times: int, *, text: str = "") -> str:
    return text * times


def with_default(times: int, text: str = "") -> str:
    return text * times


def nothing() -> None: ...


def any_number(*times: int) -> int:
    return sum(times)


def handler(sock: socket.socket, peer: Any) -> None:
    assert_type(sock.recv(10), bytes)


@dhaga.offloaded
def offloaded_repeat(times: int) -> bytes:
    return b"x" * times


async def coroutine() -> int:
    return 1


class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance

    def add(self, amount: int) -> int:
        return self.balance + amount


class Row(threading.local):
    number = 1


# ---- spawn: arguments are checked where no keyword of ours stands beside them


def spawn() -> None:
    assert_type(dhaga.spawn(repeat, 1), Dhaga[str])
    assert_type(dhaga.spawn(repeat, 1).result(), str)
    assert_type(dhaga.spawn(repeat, 1, text="x"), Dhaga[str])
    assert_type(dhaga.spawn(with_default, 1), Dhaga[str])
    assert_type(dhaga.spawn(with_default, 1, "x"), Dhaga[str])
    assert_type(dhaga.spawn(nothing), Dhaga[None])
    assert_type(dhaga.spawn(any_number, 1, 2, 3), Dhaga[int])
    assert_type(dhaga.spawn(lambda: 1), Dhaga[int])
    dhaga.spawn(lambda number: 2.0 * number, 1)
    assert_type(dhaga.spawn(Account, 1), Dhaga[Account])
    assert_type(dhaga.spawn(Account(1).add, 2), Dhaga[int])
    assert_type(dhaga.spawn(functools.partial(repeat, text="x"), 1), Dhaga[str])
    assert_type(dhaga.spawn(dhaga.sleep, 1), Dhaga[None])
    assert_type(dhaga.spawn(len, "abc"), Dhaga[int])
    dhaga.spawn(print, "a", 1, sep=",")
    dhaga.spawn(pow, 2, 10)
    dhaga.spawn(max, 1, 2)
    dhaga.spawn(sum, range(10))
    dhaga.spawn(open, "x", "rb")
    dhaga.spawn(repeat, "wrong")  # type: ignore[call-overload]
    dhaga.spawn(repeat)  # type: ignore[call-overload]
    dhaga.spawn(repeat, 1, 2)  # type: ignore[call-overload]
    dhaga.spawn(repeat, 1, nonsense=3)  # type: ignore[call-arg]
    dhaga.spawn(repeat(1))  # type: ignore[call-overload]
    dhaga.spawn(Account, "wrong")  # type: ignore[call-overload]
    dhaga.spawn(lambda: 1, 2)  # type: ignore[call-overload]


def spawn_with_options() -> None:
    assert_type(dhaga.spawn(repeat, 1, name="x", text="y"), Dhaga[str])
    assert_type(dhaga.spawn(repeat, 1, daemon=True), Dhaga[str])
    assert_type(dhaga.spawn(nothing, priority=dhaga.HIGH, name="urgent"), Dhaga[None])
    assert_type(dhaga.spawn(lambda: 1, daemon=True, context=None), Dhaga[int])
    dhaga.spawn(nothing, name=1)  # type: ignore[call-overload]
    dhaga.spawn(nothing, name="x", priority="high")  # type: ignore[call-overload]
    dhaga.spawn(nothing, daemon="yes")  # type: ignore[call-overload]


def spawn_elsewhere(scheduler: Scheduler) -> None:
    assert_type(scheduler.spawn(repeat, 1), Dhaga[str])
    assert_type(scheduler.spawn(repeat, 1, name="x"), Dhaga[str])
    scheduler.spawn(repeat, "wrong")  # type: ignore[call-overload]
    with Scope(timeout=5) as scope:
        assert_type(scope, Scope)
        assert_type(scope.spawn(repeat, 1), Dhaga[str])
        assert_type([scope.spawn(repeat, n, name="x") for n in range(3)], list[Dhaga[str]])
        scope.spawn(repeat, "wrong")  # type: ignore[call-overload]
        scope.spawn(nothing, priority=1)  # type: ignore[call-overload]


def race() -> None:
    assert_type(dhaga.race(lambda: 1, lambda: 2), int)
    dhaga.race(repeat)  # type: ignore[arg-type]


# ---- coroutines


async def from_coroutines(scheduler: Scheduler) -> None:
    assert_type(await dhaga.spawn(repeat, 1), str)
    assert_type(await run_in_dhaga(repeat, 1), str)
    assert_type(await run_in_dhaga(repeat, 1, text="x"), str)
    assert_type(await run_in_dhaga(repeat, 1, scheduler=scheduler, name="x"), str)
    assert_type(await run_in_dhaga(repeat, 1, daemon=True), str)
    await run_in_dhaga(repeat, "wrong")  # type: ignore[call-overload]
    await run_in_dhaga(repeat)  # type: ignore[call-overload]
    await run_in_dhaga(nothing, scheduler="io")  # type: ignore[call-overload]


def from_dhagas() -> None:
    assert_type(dhaga.await_(coroutine()), int)


# ---- workers and pools


def offload() -> None:
    assert_type(dhaga.offload(repeat, 1), str)
    assert_type(offloaded_repeat(1), bytes)
    dhaga.offload(repeat, "wrong")  # type: ignore[arg-type]
    offloaded_repeat("wrong")  # type: ignore[arg-type]


def pools() -> None:
    with Pool(threads=1, dhagas=2) as pool:
        assert_type(pool.submit(repeat, 1), Future[str])
        assert_type(pool.submit(repeat, 1).result(), str)
        assert_type(pool.map(repeat, [1]), Iterator[str])
        assert_type(pool.map(with_default, [1], ["x"], timeout=1), Iterator[str])
        assert_type(pool.map(lambda a, b, c: 1, [1], [2], [3]), Iterator[int])
        assert_type(pool.imap_unordered(repeat, [1]), Iterator[str])
        pool.submit(repeat, "wrong")  # type: ignore[arg-type]
        pool.map(repeat, ["wrong"])  # type: ignore[arg-type]
        pool.map(with_default, [1], [2])  # type: ignore[arg-type]
        pool.imap_unordered(repeat, ["wrong"])  # type: ignore[arg-type]
        pool.map(repeat)  # type: ignore[call-overload]
    with Executor(dhagas=3) as executor:
        assert_type(executor.submit(repeat, 1).result(), str)
        executor.submit(repeat, "wrong")  # type: ignore[arg-type]


# ---- files, sockets, servers


def files(mode: str) -> None:
    assert_type(dhaga.open("x"), io.TextIOWrapper)
    assert_type(dhaga.open("x", "w", encoding="utf-8").write("text"), int)
    assert_type(dhaga.open("x", "rb"), io.BufferedReader)
    assert_type(dhaga.open("x", "ab", pool=dhaga.OffloadPool("x", 2)), io.BufferedWriter)
    assert_type(dhaga.open("x", "rb+"), io.BufferedRandom)
    assert_type(dhaga.open("x", "rb", 0), io.FileIO)
    assert_type(dhaga.open("x", mode), IO[Any])
    dhaga.open("x", "wb").write("text")  # type: ignore[arg-type]
    dhaga.open(1.5)  # type: ignore[call-overload]


def sockets() -> None:
    assert_type(socket.create_connection(("localhost", 1)), socket.socket)
    assert_type(socket.create_connection(("localhost", 1), timeout=1.5).recv(1), bytes)
    assert_type(socket.create_connection(("localhost", 1), None).gettimeout(), float | None)
    socket.create_connection("localhost")  # type: ignore[arg-type]
    with TCPServer(handler) as server:
        assert_type(server, TCPServer)
        assert_type(server.address, tuple[str, int])
        assert_type(socket.create_connection(server.address), socket.socket)


# ---- primitives


def primitives() -> None:
    numbers: queue.Queue[int] = queue.Queue()
    assert_type(numbers.get(), int)
    numbers.put("wrong")  # type: ignore[arg-type]
    future: Future[int] = Future()
    assert_type(future.result(), int)
    assert_type(threading.Lock().acquire(), bool)
    assert_type(dhaga.sleep(0), None)
    assert_type(dhaga.current().name, str)
    assert_type(Row(), Row)
    assert_type(Row().number, int)
    threading.Thread(target=nothing, name="x", daemon=True).start()
    with dhaga.Timeout(1) as timeout:
        assert_type(timeout.expired, bool)
    with dhaga.move_on_after(1) as scope:
        assert_type(scope.cancelled_caught, bool)


def wrapper(fn: Callable[..., int], *args: Any, **options: Any) -> int:
    return dhaga.spawn(fn, *args, name="x", **options).result() + dhaga.spawn(fn, *args, **options).result()
