"""The works of plain OS threads.

There is no row for yields: a thread can release the GIL, but it is unknown whether another thread acquires it, so a
loop of releases measures no switches. There are no 100,000 sleepers and only 10,000 parked threads, because common
machines cannot start more threads.
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
    """Start and join one after the other, from within a thread."""

    def parent() -> None:
        for _ in repeat(None, count):
            thread = threading.Thread(target=_nothing)
            thread.start()
            thread.join()

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
    """Acquire a contended lock. Each critical section releases the GIL once, so that all others wait for the lock."""
    lock = threading.Lock()

    def one() -> None:
        for _ in repeat(None, count // microthreads):
            with lock:
                sleep(0)

    return _timed(*repeat(one, microthreads))


def queue_stream(count: int, maxsize: int) -> float:
    """Pass items through a queue from one thread to another."""
    items: queue.Queue[int] = queue.Queue(maxsize)

    def produce() -> None:
        for item in range(count):
            items.put(item)

    def consume() -> None:
        for _ in repeat(None, count):
            items.get()

    return _timed(produce, consume)


def queue_ping_pong(count: int) -> float:
    """Pass one item back and forth between two threads."""
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
    """Set two events in turn. The thread that waited for an event clears it."""
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
    """Let two threads alternate, with one condition and a flag for whose turn it is."""
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
    """Send messages over a socket pair, and wait for the other thread's echo of each."""
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
    """Serve each connection in a thread."""
    threading.stack_size(256 * 1024)  # thousands of default stacks of 8 MB can exceed limits of the address space
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
    """Let `count` threads wait for one event, and then set it. Returns: the bytes per thread."""
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
    sleep(0.1)  # the last threads are still between release() and wait()
    then = resident()
    gate.set()
    for each in threads:
        each.join()
    return (then - before) / count
