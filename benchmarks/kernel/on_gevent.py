"""gevent's works of all rows, with its defaults: libev, Cython primitives and tracking of the spawn tree.

A second form shows the cost of the tracking. `gevent.lock.Semaphore(1)` is gevent's fastest mutex. gevent has no
Condition; monkey patching provides the standard library's Condition.
"""

from collections.abc import Callable
from itertools import repeat
from time import perf_counter

import gevent
from gevent import event, lock, monkey, queue, socket
from gevent.server import StreamServer

from benchmarks.kernel.memory import resident
from benchmarks.kernel.sleepers import groups


def _timed(*functions: Callable[[], None]) -> float:
    """Run each function in a greenlet of its own. Returns: seconds until all are done."""
    started = perf_counter()
    greenlets = [gevent.spawn(function) for function in functions]
    for each in greenlets:
        each.get()
    return perf_counter() - started


def yield_ring(count: int, microthreads: int) -> float:
    """Let the microthreads yield in turn. The first one measures the time, without the start and end of the others."""
    laps = count // microthreads
    times: list[float] = []

    def clock() -> None:
        gevent.sleep(0)
        started = perf_counter()
        run(laps)
        times.append(perf_counter() - started)

    def run(laps: int) -> None:
        sleep = gevent.sleep
        for _ in repeat(None, laps):
            sleep(0)

    greenlets = [gevent.spawn(clock), *(gevent.spawn(run, laps + 2) for _ in range(microthreads - 1))]
    for each in greenlets:
        each.get()
    return times[0]


def _nothing() -> None:
    pass


def spawn_join(count: int) -> float:
    """Spawn and join one after the other, from within a greenlet."""

    def parent() -> None:
        for _ in repeat(None, count):
            gevent.spawn(_nothing).join()

    return _timed(parent)


def spawn_join_untracked(count: int) -> float:
    """The same with `track_greenlet_tree` off, as gevent's documentation advises for many spawns."""
    gevent.config.track_greenlet_tree = False
    return spawn_join(count)


def lock_alone(count: int) -> float:
    """Acquire and release an uncontended lock."""
    mutex = lock.Semaphore(1)

    def only() -> None:
        for _ in repeat(None, count):
            with mutex:
                pass

    return _timed(only)


def lock_contended(count: int, microthreads: int) -> float:
    """Acquire a contended lock. Each critical section yields once, so that all the others wait for the lock."""
    mutex = lock.Semaphore(1)

    def one() -> None:
        for _ in repeat(None, count // microthreads):
            with mutex:
                gevent.sleep(0)

    return _timed(*repeat(one, microthreads))


def queue_stream(count: int, maxsize: int) -> float:
    """Pass items through a queue from one greenlet to another."""
    items = queue.Queue(maxsize)

    def produce() -> None:
        for item in range(count):
            items.put(item)

    def consume() -> None:
        for _ in repeat(None, count):
            items.get()

    return _timed(produce, consume)


def queue_ping_pong(count: int) -> float:
    """Pass one item back and forth between two greenlets."""
    there, back = queue.Queue(), queue.Queue()

    def ping() -> None:
        for item in range(count):
            there.put(item)
            back.get()

    def pong() -> None:
        for _ in repeat(None, count):
            back.put(there.get())

    return _timed(ping, pong)


def event_ping_pong(count: int) -> float:
    """Set two events in turn. The greenlet that waited for an event clears it."""
    there, back = event.Event(), event.Event()

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
    """Let two greenlets alternate, with a standard Condition (monkey-patched) and a flag for whose turn it is."""
    monkey.patch_thread()
    from threading import Condition  # imported after the patch, so that its locks are gevent's

    condition = Condition()
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
        over = event.Event()

        def one() -> None:
            gevent.sleep(group.begin_sleep())  # noqa: B023  (each group is over before the next one comes)
            if group.end_sleep():  # noqa: B023
                over.set()  # noqa: B023

        for _ in repeat(None, count):
            gevent.spawn(one)
        over.wait()
    return group.cpu_seconds / count


def socketpair(count: int, size: int) -> float:
    """Send messages over a socket pair, and wait for the other greenlet's echo of each."""
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
    """Serve each connection in a greenlet, which gevent's own server spawns."""

    def serve(connection: socket.socket, _address: object) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(4096):
            connection.sendall(data)

    server = StreamServer(("127.0.0.1", 0), serve, backlog=4096)
    server.start()
    ready(server.server_port)
    server.serve_forever()


def parked_memory(count: int) -> float:
    """Let `count` greenlets wait for one event, and then set it. Returns: the bytes per greenlet."""
    gate = event.Event()
    parked = 0

    def one() -> None:
        nonlocal parked
        parked += 1
        gate.wait()

    before = resident()
    greenlets = [gevent.spawn(one) for _ in range(count)]
    while parked < count:
        gevent.sleep(0)
    then = resident()
    gate.set()
    for each in greenlets:
        each.join()
    return (then - before) / count
