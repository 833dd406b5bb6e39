"""The turn budget: a call that need not wait ends a turn that has lasted too long (invariant 9)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import os as dhaga_os
from dhaga import testing
from dhaga._kernel.run.turn_budget import CALLS_PER_CHECK, TURN_SECONDS, yield_if_due
from dhaga.queue import Queue
from dhaga.socket import MSG_DONTWAIT, socketpair
from dhaga.threading import Event, Lock
from tests.kit.tls import tls

LONG = 100_000
ENDLESS = 2_000


@pytest.fixture
def clock() -> Iterator[testing.VirtualClock]:
    with testing.virtual_clock() as clock:
        yield clock


def turns_of_others_during(clock: testing.VirtualClock, call: Callable[[], object], calls: int) -> int:
    """Make calls, each of a quarter of the budget, beside another dhaga. Returns: the number of that dhaga's turns."""

    def count() -> None:
        while not done and len(turns) < ENDLESS:
            turns.append(clock.now)
            dhaga.sleep(0)

    def run() -> None:
        for _ in range(calls):
            clock.now += TURN_SECONDS / 4
            call()
        done.append(True)

    done: list[bool] = []
    turns: list[float] = []
    calling, counting = dhaga.spawn(run), dhaga.spawn(count)
    calling.result()
    counting.join()
    return len(turns)


def full_socket() -> tuple[Any, Any]:
    near, far = socketpair()
    far.sendall(b"x" * LONG)
    near.recv(1)  # the watcher is cached
    return near, far


CALLS: dict[str, Callable[[Any], object]] = {
    "recv": lambda near: near.recv(1),
    "recv with a timeout": lambda near: (near.settimeout(9), near.recv(1)),
    "recv_into": lambda near: near.recv_into(bytearray(1)),
    "recvfrom": lambda near: near.recvfrom(1),
    "os.read": lambda near: dhaga_os.read(near.fileno(), 1),
    "send": lambda near: near.send(b"x"),
    "sendall": lambda near: near.sendall(b"x"),
    "os.write": lambda near: dhaga_os.write(near.fileno(), b"x"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_a_socket_gives_a_long_turn_up(clock: testing.VirtualClock, name: str) -> None:
    near, far = full_socket()
    with near, far:
        calls = 8 * CALLS_PER_CHECK  # a socket holds that many bytes
        # A turn is noted at one look and ends at the next after its deadline; sends look once in CALLS_PER_CHECK.
        assert turns_of_others_during(clock, lambda: CALLS[name](near), calls) >= 4


def test_main_code_gives_a_long_turn_up(clock: testing.VirtualClock) -> None:
    near, far = full_socket()
    turns: list[float] = []
    with near, far:
        other = dhaga.spawn(turns.append, 1)
        for _ in range(10):
            clock.now += TURN_SECONDS / 4
            near.recv(1)
        assert turns == [1]
    other.join()


def test_tls_gives_a_long_turn_up(clock: testing.VirtualClock) -> None:
    with tls() as (near, far):
        far.sendall(b"x" * 1000)
        assert turns_of_others_during(clock, lambda: near.recv(1), 80) >= 5
        assert turns_of_others_during(clock, lambda: far.sendall(b"x"), 80) >= 5


def test_a_pipe_read_as_a_file_gives_a_long_turn_up(clock: testing.VirtualClock) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"x" * 1000)
    with dhaga.io.open(read_end, "rb", buffering=0) as file:
        assert turns_of_others_during(clock, lambda: file.read(1), 80) >= 5
    os.close(write_end)


def test_short_turns_are_left_alone(clock: testing.VirtualClock) -> None:
    near, far = full_socket()
    with near, far:
        others = [dhaga.spawn(dhaga.sleep, 0) for _ in range(5)]
        for _ in range(ENDLESS):
            near.recv(1)  # the clock stands still
        assert {other.state for other in others} == {"NEW"}
    for other in others:
        other.join()


def test_no_park_holds_it_off(clock: testing.VirtualClock) -> None:
    near, far = full_socket()

    def recv() -> None:
        with dhaga.no_park():
            near.recv(1)

    with near, far:
        assert turns_of_others_during(clock, recv, 80) <= 1


def test_a_call_that_promises_not_to_wait_does_not_yield(clock: testing.VirtualClock) -> None:
    near, far = full_socket()
    with near, far:
        assert turns_of_others_during(clock, lambda: far.send(b"x", MSG_DONTWAIT), 80) <= 1
        near.setblocking(False)
        assert turns_of_others_during(clock, lambda: near.recv(1), 80) <= 1
        assert turns_of_others_during(clock, lambda: near.send(b"x"), 80) <= 1


def test_locks_queues_and_events_never_yield(clock: testing.VirtualClock) -> None:
    lock, queue, event = Lock(), Queue[int](), Event()
    event.set()

    def use() -> None:
        with lock:
            queue.put(1)
        queue.get()
        event.wait()

    assert turns_of_others_during(clock, use, 80) <= 1


def test_a_cancel_strikes_before_the_call_and_loses_nothing(clock: testing.VirtualClock) -> None:
    near, far = full_socket()
    got = bytearray()

    def read() -> None:
        while True:
            clock.now += TURN_SECONDS / 4
            got.extend(near.recv(1))

    with near, far:
        with pytest.raises(TimeoutError), dhaga.Timeout(20 * TURN_SECONDS):
            read()
        assert 20 <= len(got) < 200
        near.setblocking(False)
        assert len(near.recv(LONG)) + len(got) == LONG - 1


def test_fds_and_timers_get_their_turn(clock: testing.VirtualClock) -> None:
    """Beside a dhaga that calls without end, another one's timer fires and its fd wakes it (invariant 7)."""
    near, far = full_socket()
    quiet, loud = socketpair()

    def wait() -> None:
        dhaga.sleep(3 * TURN_SECONDS)
        loud.sendall(b"x")
        trace.append(quiet.recv(9))
        done.append(True)

    def flood() -> None:
        while not done and len(trace) < ENDLESS:
            clock.now += TURN_SECONDS / 4
            near.recv(1)

    trace: list[bytes] = []
    done: list[bool] = []
    with near, far, quiet, loud:
        waiting = dhaga.spawn(wait)
        dhaga.spawn(flood).result()
        waiting.join()
    assert trace == [b"x"]


def test_where_nothing_can_park_nothing_yields() -> None:
    trace: list[object] = []
    dhaga.spawn(lambda: trace.append(1)).join()
    scheduler = dhaga.current().scheduler
    scheduler.turn_ends_at = 0.0
    scheduler.loop.call_soon(lambda: [yield_if_due() for _ in range(9)])
    dhaga.sleep(0.01)
    thread = dhaga.offload(lambda: yield_if_due())
    assert thread is None
