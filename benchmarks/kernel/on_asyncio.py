"""The works of asyncio and uvloop: the same coroutines, on the loop that the caller has created.

If streams are not the fastest way, a second form shows the faster way: protocols for the echo server, and `loop.sock_*`
between two sockets.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from itertools import repeat
from time import perf_counter
from typing import Any, cast

from benchmarks.kernel.memory import resident
from benchmarks.kernel.sleepers import groups


async def _timed(*coroutines: Coroutine[Any, Any, None]) -> float:
    """Run each coroutine in a task of its own. Returns: seconds until all are done."""
    started = perf_counter()
    tasks = [asyncio.create_task(each) for each in coroutines]
    for task in tasks:
        await task
    return perf_counter() - started


async def yield_ring(count: int, microthreads: int) -> float:
    """Let the microthreads yield in turn. The first one measures the time, without the start and end of the others."""
    laps = count // microthreads
    times: list[float] = []

    async def clock() -> None:
        await asyncio.sleep(0)
        started = perf_counter()
        await run(laps)
        times.append(perf_counter() - started)

    async def run(laps: int) -> None:
        sleep = asyncio.sleep
        for _ in repeat(None, laps):
            await sleep(0)

    tasks = [asyncio.create_task(clock()), *(asyncio.create_task(run(laps + 2)) for _ in range(microthreads - 1))]
    for task in tasks:
        await task
    return times[0]


async def _nothing() -> None:
    pass


async def spawn_join(count: int) -> float:
    """Spawn and join one after the other, from within a task."""

    async def parent() -> None:
        for _ in repeat(None, count):
            await asyncio.create_task(_nothing())

    return await _timed(parent())


async def lock_alone(count: int) -> float:
    """Acquire and release an uncontended lock."""
    lock = asyncio.Lock()

    async def only() -> None:
        for _ in repeat(None, count):
            async with lock:
                pass

    return await _timed(only())


async def lock_contended(count: int, microthreads: int) -> float:
    """Acquire a contended lock. Each critical section yields once, so that all the others wait for the lock."""
    lock = asyncio.Lock()

    async def one() -> None:
        for _ in repeat(None, count // microthreads):
            async with lock:
                await asyncio.sleep(0)

    return await _timed(*(one() for _ in range(microthreads)))


async def queue_stream(count: int, maxsize: int) -> float:
    """Pass items through a queue from one task to another."""
    items: asyncio.Queue[int] = asyncio.Queue(maxsize)

    async def produce() -> None:
        for item in range(count):
            await items.put(item)

    async def consume() -> None:
        for _ in repeat(None, count):
            await items.get()

    return await _timed(produce(), consume())


async def queue_ping_pong(count: int) -> float:
    """Pass one item back and forth between two tasks."""
    there: asyncio.Queue[int] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def ping() -> None:
        for item in range(count):
            await there.put(item)
            await back.get()

    async def pong() -> None:
        for _ in repeat(None, count):
            await back.put(await there.get())

    return await _timed(ping(), pong())


async def event_ping_pong(count: int) -> float:
    """Set two events in turn. The task that waited for an event clears it."""
    there, back = asyncio.Event(), asyncio.Event()

    async def ping() -> None:
        for _ in repeat(None, count):
            there.set()
            await back.wait()
            back.clear()

    async def pong() -> None:
        for _ in repeat(None, count):
            await there.wait()
            there.clear()
            back.set()

    return await _timed(ping(), pong())


async def condition_ping_pong(count: int) -> float:
    """Let two tasks alternate, with one condition and a flag for whose turn it is."""
    condition = asyncio.Condition()
    turn = 0

    async def play(me: int) -> None:
        nonlocal turn
        for _ in repeat(None, count):
            async with condition:
                while turn != me:
                    await condition.wait()
                turn = 1 - me
                condition.notify()

    return await _timed(play(0), play(1))


async def sleepers(count: int) -> float:
    """See `benchmarks.kernel.sleepers`."""
    for group in groups(count):
        over = asyncio.Event()

        async def one() -> None:
            await asyncio.sleep(group.begin_sleep())  # noqa: B023  (each group is over before the next one comes)
            if group.end_sleep():  # noqa: B023
                over.set()  # noqa: B023

        tasks = [asyncio.create_task(one()) for _ in range(count)]  # kept: the loop itself holds tasks only weakly
        await over.wait()
        tasks.clear()
    return group.cpu_seconds / count


async def socketpair_streams(count: int, size: int) -> float:
    """Send messages over a socket pair, and wait for the other task's echo of each."""
    near, far = socket.socketpair()
    message = bytes(size)
    near_reader, near_writer = await asyncio.open_connection(sock=near)
    far_reader, far_writer = await asyncio.open_connection(sock=far)

    async def ping() -> None:
        for _ in repeat(None, count):
            near_writer.write(message)
            await near_reader.read(4096)

    async def pong() -> None:
        for _ in repeat(None, count):
            far_writer.write(await far_reader.read(4096))

    seconds = await _timed(ping(), pong())
    near_writer.close()
    far_writer.close()
    return seconds


async def socketpair_sock(count: int, size: int) -> float:
    """Send messages over a socket pair, and wait for the other task's echo of each."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    message = bytes(size)

    async def ping() -> None:
        for _ in repeat(None, count):
            await loop.sock_sendall(near, message)
            await loop.sock_recv(near, 4096)

    async def pong() -> None:
        for _ in repeat(None, count):
            await loop.sock_sendall(far, await loop.sock_recv(far, 4096))

    with near, far:
        return await _timed(ping(), pong())


async def echo_streams(ready: Callable[[int], None]) -> None:
    """Serve each connection in a task, without `drain`: with one short message in flight, the buffer never fills."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    ready(server.sockets[0].getsockname()[1])
    await server.serve_forever()


class _Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has only the methods

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def echo_protocol(ready: Callable[[int], None]) -> None:
    """Serve connections with callbacks, without any task."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Echo, "127.0.0.1", 0, backlog=4096)
    ready(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def parked_memory(count: int) -> float:
    """Let `count` tasks wait for one event, and then set it. Returns: the bytes per task."""
    gate = asyncio.Event()
    parked = 0

    async def one() -> None:
        nonlocal parked
        parked += 1
        await gate.wait()

    before = resident()
    tasks = [asyncio.create_task(one()) for _ in range(count)]
    while parked < count:
        await asyncio.sleep(0)
    then = resident()
    gate.set()
    for task in tasks:
        await task
    return (then - before) / count
