"""Dhaga's works of all rows. The other `on_` files have functions with the same names and the same work."""

from collections.abc import Callable
from itertools import repeat
from time import perf_counter

import dhaga
from benchmarks.kernel.memory import resident
from benchmarks.kernel.sleepers import groups
from dhaga import queue, socket, threading


def _timed(*functions: Callable[[], None]) -> float:
    """Run each function in a dhaga of its own. Returns: seconds until all are done."""
    started = perf_counter()
    dhagas = [dhaga.spawn(function) for function in functions]
    for each in dhagas:
        each.result()
    return perf_counter() - started


def yield_ring(count: int, microthreads: int) -> float:
    """Let the microthreads yield in turn. The first one measures the time, without the start and end of the others."""
    laps = count // microthreads
    times: list[float] = []

    def clock() -> None:
        dhaga.sleep(0)
        started = perf_counter()
        run(laps)
        times.append(perf_counter() - started)

    def run(laps: int) -> None:
        sleep = dhaga.sleep
        for _ in repeat(None, laps):
            sleep(0)

    dhagas = [dhaga.spawn(clock), *(dhaga.spawn(run, laps + 2) for _ in range(microthreads - 1))]
    for each in dhagas:
        each.result()
    return times[0]


def _nothing() -> None:
    pass


def spawn_join(count: int) -> float:
    """Spawn and join one after the other, from within a dhaga."""

    def parent() -> None:
        for _ in repeat(None, count):
            dhaga.spawn(_nothing).join()

    return _timed(parent)


def lock_alone(count: int) -> float:
    """Acquire and release an uncontended lock."""
    lock = threading.Lock()

    def only() -> None:
        for _ in repeat(None, count):
            with lock:
                pass

    return _timed(only)


def lock_contended(count: int, microthreads: int) -> float:
    """Acquire a contended lock. Each critical section yields once, so that all the others wait for the lock."""
    lock = threading.Lock()

    def one() -> None:
        for _ in repeat(None, count // microthreads):
            with lock:
                dhaga.sleep(0)

    return _timed(*repeat(one, microthreads))


def queue_stream(count: int, maxsize: int) -> float:
    """Pass items through a queue from one dhaga to another."""
    items: queue.Queue[int] = queue.Queue(maxsize)

    def produce() -> None:
        for item in range(count):
            items.put(item)

    def consume() -> None:
        for _ in repeat(None, count):
            items.get()

    return _timed(produce, consume)


def queue_ping_pong(count: int) -> float:
    """Pass one item back and forth between two dhagas."""
    there: queue.Queue[int] = queue.Queue()
    back: queue.Queue[int] = queue.Queue()

    def ping() -> None:
        for item in range(count):
            there.put(item)
            back.get()

    def pong() -> None:
        for _ in repeat(None, count):
            back.put(there.get())

    return _timed(ping, pong)


def event_ping_pong(count: int) -> float:
    """Set two events in turn. The dhaga that waited for an event clears it."""
    there, back = threading.Event(), threading.Event()

    def ping() -> None:
        for _ in repeat(None, count):
            there.set()
            back.wait()
            back.clear()

    def pong() -> None:
        for _ in repeat(None, count):
            there.wait()
            there.clear()
            back.set()

    return _timed(ping, pong)


def condition_ping_pong(count: int) -> float:
    """Let two dhagas alternate, with one condition and a flag for whose turn it is."""
    condition = threading.Condition()
    turn = 0

    def play(me: int) -> None:
        nonlocal turn
        for _ in repeat(None, count):
            with condition:
                while turn != me:
                    condition.wait()
                turn = 1 - me
                condition.notify()

    return _timed(lambda: play(0), lambda: play(1))


def sleepers(count: int) -> float:
    """See `benchmarks.kernel.sleepers`."""
    for group in groups(count):
        over = threading.Event()

        def one() -> None:
            dhaga.sleep(group.begin_sleep())  # noqa: B023  (each group is over before the next one comes)
            if group.end_sleep():  # noqa: B023
                over.set()  # noqa: B023

        for _ in repeat(None, count):
            dhaga.spawn(one)
        over.wait()
    return group.cpu_seconds / count


def socketpair(count: int, size: int) -> float:
    """Send messages over a socket pair, and wait for the other dhaga's echo of each."""
    near, far = socket.socketpair()
    message = bytes(size)

    def ping() -> None:
        for _ in repeat(None, count):
            near.sendall(message)
            near.recv(4096)

    def pong() -> None:
        for _ in repeat(None, count):
            far.sendall(far.recv(4096))

    with near, far:
        return _timed(ping, pong)


def echo(ready: Callable[[int], None]) -> None:
    """Serve each connection in a dhaga."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    ready(listener.getsockname()[1])
    while True:
        dhaga.spawn(serve, listener.accept()[0])


def _park(count: int) -> tuple[int, int]:
    """Park `count` dhagas in one event, and then set it. Returns: resident bytes before, and while they are parked."""
    gate = threading.Event()
    parked = gone = 0

    def one() -> None:
        nonlocal parked, gone
        parked += 1
        gate.wait()
        gone += 1

    before = resident()
    dhagas = [dhaga.spawn(one) for _ in range(count)]
    while parked < count:
        dhaga.sleep(0)
    then = resident()
    gate.set()
    for each in dhagas:
        each.join()
    if gone != count:
        raise RuntimeError(f"only {gone} of {count} came back")
    return before, then


def parked_memory(count: int) -> float:
    """Return the bytes per parked dhaga."""
    before, then = _park(count)
    return (then - before) / count


def parked_total(count: int) -> float:
    """Return the bytes of the whole process with the parked dhagas."""
    return float(_park(count)[1])
