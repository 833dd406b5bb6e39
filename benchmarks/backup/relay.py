"""A process that gives loopback a latency and a bandwidth: python -m benchmarks.backup.relay --to HOST:PORT --rtt 40ms.

Each direction is one line, which all connections share. The line sends bytes at its rate, in order of arrival; each
byte then travels for half a round trip. The server sees a new connection after one and a half round trips, the time of
TCP's handshake. Packet loss and TCP's slow start are not modelled.

The relay runs on uvloop if it is installed, because the relay should cost little compared with the measured programs.
"""

import argparse
import asyncio
import json
import resource
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from benchmarks.backup.quantities import duration, rate
from benchmarks.machine import raise_file_limit

WINDOW = 512 * 1024
"""Maximum number of bytes of one connection in flight: what 100 Mbit/s carry in 40 ms. Then the sender has to wait."""

TICK = 0.1
"""Seconds between two readings of the number of bytes that have passed."""

GRAIN = 0.0005
"""Seconds by which bytes may arrive early. uvloop rounds timers to milliseconds, so exact times would need retries."""


class LinkDirection:
    """One direction, in FIFO order. Bytes are delayed by the time to send them at the rate, plus half a round trip."""

    def __init__(
        self,
        delay: float,
        rate: float,
        call_later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.passed = 0
        self._delay = delay
        self._rate = rate
        self._call_later = call_later
        self._clock = clock  # not the loop's clock: uvloop's stands still within an iteration
        self._free = 0.0
        self._under_way: deque[tuple[float, bytes, Callable[[bytes], object]]] = deque()

    def carry(self, data: bytes, arrive: Callable[[bytes], object]) -> None:
        """Call ``arrive(data)`` at the other end, after the delay."""
        now = self._clock()
        self._free = max(self._free, now) + len(data) / self._rate
        self._under_way.append((self._free + self._delay, data, arrive))
        if len(self._under_way) == 1:
            self._call_later(self._free + self._delay - now, self._deliver)

    def _deliver(self) -> None:
        under_way = self._under_way
        while under_way and under_way[0][0] <= self._clock() + GRAIN:
            _, data, arrive = under_way[0]
            self.passed += len(data)
            arrive(data)
            under_way.popleft()  # only now: if `arrive` calls carry(), carry() must not arm a second timer
        if under_way:
            self._call_later(max(under_way[0][0] - self._clock(), 0.0), self._deliver)


class RelayConnection(asyncio.Protocol):
    """One end of a connection. The bytes that it receives go through its line to the other end."""

    def __init__(self, line: LinkDirection) -> None:
        self.line = line
        self.peer: RelayConnection | None = None
        self.transport: asyncio.Transport | None = None
        self.under_way = 0
        self.ended = False
        self._early: list[tuple[bytes, Callable[[bytes], None]]] = []  # uvloop reads before reading can be paused
        self._full = False  # the socket takes no more for the time being
        self._held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self.regulate()

    def data_received(self, data: bytes) -> None:
        """Send on."""
        self.under_way += len(data)
        self.regulate()
        self._send(data, self._arrive)

    def eof_received(self) -> bool:
        """Send the end on; the other direction stays open."""
        self._send(b"", self._arrive_end)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other end, too, after the delay."""
        self.transport = None
        self._send(b"", self._arrive_loss)

    def pause_writing(self) -> None:
        """Stop reading at the other end."""
        self._set_full(True)

    def resume_writing(self) -> None:
        """Resume reading at the other end."""
        self._set_full(False)

    def meet(self, peer: "RelayConnection") -> None:
        """Connect this end with the other end, and send the bytes that were received before."""
        self.peer = peer
        for data, arrive in self._early:
            self.line.carry(data, arrive)
        self._early.clear()
        self.regulate()

    def abort(self) -> None:
        """Close the socket at once."""
        if self.transport:
            self.transport.abort()

    def regulate(self) -> None:
        """Pause or resume reading, so that no more is read than the line and the other end can take."""
        held = self.under_way > WINDOW or self.peer is None or self.peer._full
        if held is not self._held and self.transport:
            self._held = held
            (self.transport.pause_reading if held else self.transport.resume_reading)()

    def _set_full(self, full: bool) -> None:
        self._full = full
        if self.peer:
            self.peer.regulate()

    def _send(self, data: bytes, arrive: Callable[[bytes], None]) -> None:
        if self.peer:
            self.line.carry(data, arrive)
        else:
            self._early.append((data, arrive))

    def _arrive(self, data: bytes) -> None:
        self.under_way -= len(data)
        if self.peer and self.peer.transport and not self.peer.transport.is_closing():
            self.peer.transport.write(data)
            self.regulate()

    def _arrive_end(self, _: bytes) -> None:
        self.ended = True
        peer = self.peer
        if not peer or peer.ended:
            self._close_both()
        elif peer.transport and not peer.transport.is_closing():
            peer.transport.write_eof()

    def _arrive_loss(self, _: bytes) -> None:
        self._close_both()

    def _close_both(self) -> None:
        for end in (self, self.peer):
            if end and end.transport:
                end.transport.close()


class Relay:
    """Accepts connections, and opens for each a connection to the server at the other end of the line."""

    def __init__(self, target: tuple[str, int], rtt: float, rate: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.up = LinkDirection(rtt / 2, rate, self.loop.call_later)
        self.down = LinkDirection(rtt / 2, rate, self.loop.call_later)
        self.connections = 0
        self.history: list[tuple[float, int]] = []
        self._target = target
        self._handshake = 1.5 * rtt
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        """Begin to accept connections. Returns: the port."""
        server = await self.loop.create_server(self._accept, "127.0.0.1", 0, backlog=4096)
        self._look()
        port: int = server.sockets[0].getsockname()[1]
        return port

    def report(self) -> dict[str, Any]:
        """Return the bytes that have passed. `history`: pairs of time.monotonic() and the bytes sent to the server."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._note_progress()
        passed = {"up": self.up.passed, "down": self.down.passed, "connections": self.connections}
        return {**passed, "cpu": used.ru_utime + used.ru_stime, "history": self.history}

    def _look(self) -> None:
        self._note_progress()
        self.loop.call_later(TICK, self._look)

    def _note_progress(self) -> None:
        self.history.append((time.monotonic(), self.up.passed))

    def _accept(self) -> RelayConnection:
        near = RelayConnection(self.up)
        task = self.loop.create_task(self._connect(near))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return near

    async def _connect(self, near: RelayConnection) -> None:
        await asyncio.sleep(self._handshake)
        far = RelayConnection(self.down)
        far.meet(near)
        try:
            await self.loop.create_connection(lambda: far, *self._target)
        except OSError:
            near.abort()
            return
        self.connections += 1
        near.meet(far)


async def serve(target: tuple[str, int], rtt: float, rate: float) -> None:
    """Relay until a signal comes. Print the port at the beginning and the report at the end, both as JSON."""
    relay = Relay(target, rtt, rate)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        relay.loop.add_signal_handler(number, ended.set)
    print(json.dumps({"port": await relay.listen()}), flush=True)
    await ended.wait()
    print(json.dumps(relay.report()), flush=True)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest loop that is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def place(text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no server: write HOST:PORT")
    return host, int(port)


def main() -> None:
    """Read the command line and relay."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backup.relay", description=__doc__.partition(":")[0])
    parser.add_argument("--to", type=place, required=True, metavar="HOST:PORT", help="the server at the other end")
    parser.add_argument("--rtt", type=duration, default=0.04, help="round-trip time (default 40ms)")
    parser.add_argument("--rate", type=rate, default=12.5e6, help="of all connections, each way (default 100mbit)")
    options = parser.parse_args()
    raise_file_limit()
    run(serve(options.to, options.rtt, options.rate))


if __name__ == "__main__":
    main()
