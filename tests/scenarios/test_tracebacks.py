"""The first traceback that a newcomer sees begins with the newcomer's own line: no error of ours stands before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import dhaga
from dhaga import futures, queue, select, socket, threading


def taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def with_a_socket(use: Callable[[socket.socket], object]) -> Callable[[], object]:
    def call() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            use(ours)

    return call


def enter(manager: Callable[[], object]) -> Callable[[], object]:
    return lambda: manager().__enter__()  # type: ignore[attr-defined]


def never_ending() -> dhaga.Dhaga:
    return dhaga.spawn(dhaga.park, "cancelled below", daemon=True)


# Each raises ParkError in a coroutine.
CALLS: dict[str, Callable[[], object]] = {
    "sleep": lambda: dhaga.sleep(1),
    "sleep(0)": dhaga.sleep,
    "park": lambda: dhaga.park("x"),
    "current": dhaga.current,
    "await_": lambda: dhaga.await_(asyncio.Event().wait()),
    "offload": lambda: dhaga.offload(int),
    "wait": lambda: dhaga.wait([never_ending()]),
    "race": lambda: dhaga.race(int),
    "Timeout": enter(lambda: dhaga.Timeout(1)),
    "Scope": enter(dhaga.Scope),
    "shield": enter(dhaga.shield),
    "priority": enter(lambda: dhaga.priority(dhaga.HIGH)),
    "join": lambda: never_ending().join(),
    "result": lambda: never_ending().result(),
    "Lock": lambda: taken_lock().acquire(),
    "Semaphore": lambda: threading.Semaphore(0).acquire(),
    "Event": lambda: threading.Event().wait(),
    "Barrier": lambda: threading.Barrier(2).wait(),
    "Queue": lambda: queue.Queue[int]().get(),
    "SimpleQueue": lambda: queue.SimpleQueue[int]().get(),
    "Future": lambda: futures.Future[int]().result(),
    "recv": with_a_socket(lambda end: end.recv(1)),
    "select": with_a_socket(lambda end: select.select([end], [], [])),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_an_error_in_a_coroutine_is_the_first(name: str) -> None:
    async def call() -> None:
        with pytest.raises(dhaga.ParkError) as info:
            CALLS[name]()
        assert info.value.__context__ is None

    asyncio.run(call())


@pytest.mark.parametrize("name", ["Lock", "Semaphore", "Event", "Queue", "Future"])
def test_a_deadlock_in_main_code_is_the_first(name: str) -> None:
    with pytest.raises(dhaga.Deadlock) as info:
        CALLS[name]()
    assert info.value.__context__ is None


def test_a_bad_argument_in_main_code_is_the_first() -> None:
    with pytest.raises(ValueError) as info:
        dhaga.sleep(-1)
    assert info.value.__context__ is None
