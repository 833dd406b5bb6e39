"""The side of plain OS threads.

No yield: a thread can offer its GIL, but whether another one takes it cannot be said, so a loop of offers measures no
switches. No 100,000 sleepers, and only 10,000 parked ones: more than that no common machine starts.
"""

import queue
import socket
import threading
from collections.abc import Callable
from itertools import repeat
from time import perf_counter, sleep

from benchmarks.kernel.memory import resident


def _timed(*functions: Callable[[], None]) -> float:
    """Run each function in a thread of its own. Returns: seconds until all are done."""
    started = perf_counter()
    threads = [threading.Thread(target=function) for function in functions]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return perf_counter() - started


def _nothing() -> None:
    pass


def spawn_join(count: int) -> float:
    """One after the other, from within a thread."""

    def parent() -> None:
        for _ in repeat(None, count):
            thread = threading.Thread(target=_nothing)
            thread.start()
            thread.join()

    return _timed(parent)


def lock_alone(count: int) -> float:
    """Take and give an uncontended lock."""
    lock = threading.Lock()

    def only() -> None:
        for _ in repeat(None, count):
            with lock:
                pass

    return _timed(only)


def lock_contended(count: int, microthreads: int) -> float:
    """Each critical section offers the GIL once, so that all the others come to wait for the lock."""
    lock = threading.Lock()

    def one() -> None:
        for _ in repeat(None, count // microthreads):
            with lock:
                sleep(0)

    return _timed(*repeat(one, microthreads))


def queue_stream(count: int, maxsize: int) -> float:
    """One puts, one gets."""
    items: queue.Queue[int] = queue.Queue(maxsize)

    def produce() -> None:
        for item in range(count):
            items.put(item)

    def consume() -> None:
        for _ in repeat(None, count):
            items.get()

    return _timed(produce, consume)


def queue_ping_pong(count: int) -> float:
    """One item there and back."""
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
    """Two events, set in turn, each cleared by the one who waited."""
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
    """One condition, two players, whose turn it is."""
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


def socketpair(count: int, size: int) -> float:
    """One sends and waits for the echo of the other."""
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
    """One thread a connection."""
    threading.stack_size(256 * 1024)  # thousands of default stacks of 8 MB meet address space limits
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    ready(listener.getsockname()[1])
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def parked_memory(count: int) -> float:
    """Park `count` threads in one event and let them go again. Returns: the bytes of one."""
    gate = threading.Event()
    parked = threading.Semaphore(0)

    def one() -> None:
        parked.release()
        gate.wait()

    before = resident()
    threads = [threading.Thread(target=one) for _ in range(count)]
    for each in threads:
        each.start()
    for _ in threads:
        parked.acquire()
    sleep(0.1)  # the last ones are on their way from release() to wait()
    then = resident()
    gate.set()
    for each in threads:
        each.join()
    return (then - before) / count
