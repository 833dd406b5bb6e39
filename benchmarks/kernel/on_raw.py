"""The lower limit: the cost of bare greenlets and of a bare epoll loop in Python, without any framework."""

import select
import socket
from collections.abc import Callable
from functools import partial
from itertools import repeat
from time import perf_counter

from greenlet import getcurrent, greenlet

from benchmarks.kernel.memory import resident


def yield_ring(count: int, microthreads: int) -> float:
    """Let each greenlet switch directly to the next. The first one measures the time.

    The main greenlet starts all greenlets. If each greenlet started the next, they would nest on the C stack: switches
    would need no copying, and some thousands of greenlets would overflow the stack.
    """
    laps = count // microthreads
    times: list[float] = []
    ring: list[greenlet] = []
    back = getcurrent().switch

    def clock() -> None:
        back()
        following = ring[1].switch
        started = perf_counter()
        for _ in repeat(None, laps):
            following()
        times.append(perf_counter() - started)

    def run(place: int) -> None:
        back()
        following = ring[(place + 1) % microthreads].switch
        for _ in repeat(None, laps):
            following()

    ring.append(greenlet(clock))
    ring.extend(greenlet(partial(run, place)) for place in range(1, microthreads))
    for each in ring:
        each.switch()
    ring[0].switch()
    return times[0]


def _nothing() -> None:
    pass


def spawn_join(count: int) -> float:
    """Create a greenlet, and run it to its end."""
    started = perf_counter()
    for _ in repeat(None, count):
        greenlet(_nothing).switch()
    return perf_counter() - started


def socketpair(count: int, size: int) -> float:
    """Poll and echo in one loop, without microthreads."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    message = bytes(size)
    with near, far, select.epoll() as poller:
        poller.register(near, select.EPOLLIN | select.EPOLLET)
        poller.register(far, select.EPOLLIN | select.EPOLLET)
        poll, send, receive = poller.poll, near.send, near.recv
        send_back, receive_there = far.send, far.recv
        started = perf_counter()
        for _ in repeat(None, count):
            send(message)
            poll()
            send_back(receive_there(4096))
            poll()
            receive(4096)
        return perf_counter() - started


def echo(ready: Callable[[int], None]) -> None:
    """Poll and echo in one loop, without microthreads."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    calls: dict[int, tuple[Callable[[int], bytes], Callable[[bytes], int]]] = {}

    def accept() -> None:
        connection = listener.accept()[0]
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[connection.fileno()] = connection
        calls[connection.fileno()] = connection.recv, connection.send
        poller.register(connection, select.EPOLLIN)

    ready(listener.getsockname()[1])
    listening = listener.fileno()
    while True:
        for number, _ in poller.poll():
            if number == listening:
                accept()
                continue
            receive, send = calls[number]
            if data := receive(4096):
                send(data)
            else:
                del calls[number]
                connections.pop(number).close()


def parked_memory(count: int) -> float:
    """Park `count` greenlets, and then resume them. Returns: the bytes per greenlet."""
    park = getcurrent().switch

    def one() -> None:
        park()

    before = resident()
    greenlets = [greenlet(one) for _ in range(count)]
    for each in greenlets:
        each.switch()
    then = resident()
    for each in greenlets:
        each.switch()
    return (then - before) / count
