"""``Wire``: one direction of a connection. A wire carries bytes in order. The link and faults can delay or hold them.

A wire takes sent bytes as soon as the program lets the event loop run. The virtual clock then still shows the time of
the send. The wire gives the bytes to the target at the time of their arrival. A full wire, with ``WINDOW`` bytes or
more, takes no further bytes. Then the send buffer of the source fills, as in a real connection if the peer does not
read.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from .._base.excerpt import Excerpt
from ._end import CLOSED, End
from ._link import GIVEN_UP_AFTER, RETRANSMISSION, Link, retries

if TYPE_CHECKING:
    from ._network import Network

CHUNK = 1 << 16
"""The largest number of bytes that a wire takes at once."""

WINDOW = 1 << 18
"""The number of bytes on a wire at which the wire is full."""

FIN = None
"""The end of a stream, which arrives after the last bytes."""


class Wire:
    """The wire for the bytes that ``source`` sends to ``target``."""

    def __init__(self, network: Network, source: End, target: End) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.pair = (source.host, target.host)
        self.local = source.is_local() or source.host is target.host
        self.on_wire = 0
        self.paused = False
        self.finished = False
        self.last_arrival = self.free_at = 0.0
        self.held: deque[bytes | None] = deque()
        self.waiting: deque[bytes | None] = deque()
        self.stalled_until = 0.0
        # The texts of frequent events are made once, for speed.
        self.arrival = f"brings {target.name} bytes from {source.name}"
        self.brings, self.sent = f"brings {target.name} ", f" bytes from {source.name}"
        self.way = f" bytes from {source.name} for {target.name}"

    def __repr__(self) -> str:
        return f"<Wire from {self.source.name} to {self.target.name}, {self.on_wire} bytes under way>"

    @property
    def link(self) -> Link:
        return self.network.link_between(*self.pair, self.local)

    @property
    def other_way(self) -> Wire | None:
        """The wire that carries the target's bytes to the source."""
        return self.target.outgoing

    # ---- from the source to this wire

    def collect(self) -> None:
        """Collect the bytes that the source has sent."""
        self.paused = False
        recv = self.source.wire.recv
        while not self.finished:
            if self.on_wire >= WINDOW:
                self.paused = True
                return
            try:
                data = recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:  # the program has closed the socket with unread bytes
                self.send_reset()
                return
            if not data:
                self.finish()
                return
            self.send(data)
            if len(data) < CHUNK and not self.source.ended:
                return

    def finish(self) -> None:
        """Send the end of the stream. If the program has closed the source, also close the network's end."""
        self.finished = True
        self.schedule(FIN, 0, self.link)
        if self.source.hung_up:
            self.network.close(self.source)

    def send(self, data: bytes) -> None:
        self.on_wire += len(data)
        self.network.remark(("takes ", len(data), self.way, ": ", Excerpt(data)))
        link = self.link
        if link.fragments and len(data) > 1 and self.network.draw.random() < link.fragments:
            cut = self.network.draw.randrange(1, len(data))
            self.schedule(data[:cut], cut, link)
            data = data[cut:]
        self.schedule(data, len(data), link)

    def schedule(self, data: bytes | None, size: int, link: Link) -> None:
        """Schedule the arrival of bytes after all earlier arrivals."""
        network = self.network
        at = network.clock.now
        if link.bandwidth is not None:
            at = self.free_at = max(at, self.free_at) + size / link.bandwidth
        at += link.draw_latency(network.draw)
        if link.loss:
            for pause in retries():
                if network.draw.random() >= link.loss or pause > 100 * RETRANSMISSION:
                    break
                at += pause
        self.last_arrival = at = max(at, self.last_arrival)
        network.at(at, self.arrive, data)

    def send_reset(self) -> None:
        """Send a reset to the target. The reset can overtake bytes on the wire."""
        self.finished = True
        if self.source.hung_up:
            self.network.close(self.source)
        network = self.network
        network.at(network.clock.now + self.link.draw_latency(network.draw), self.arrive_reset)

    # ---- from this wire to the target

    def is_blocked(self) -> bool:
        return self.stalled_until > self.network.clock.now or self.is_cut()

    def is_cut(self) -> bool:
        """Return whether a partition separates the ends."""
        return bool(self.network.blocked) and not self.local and self.pair in self.network.blocked

    def arrive(self, data: bytes | None) -> None:
        """Deliver bytes. While a fault holds them, try again after growing pauses."""
        if self.held:
            self.held.append(data)
        elif self.is_blocked():
            self.held.append(data)
            self.retry(retries(), 0.0)
        else:
            self.deliver(data)

    def retry(self, pauses: Any, waited: float) -> None:
        if waited and not self.is_blocked():
            while self.held:
                self.deliver(self.held.popleft())
        elif waited > GIVEN_UP_AFTER:
            self.held.clear()
            self.network.tell(f"{self.source.name} gives {self.target.name} up")
            self.network.forget(self.source)
        else:
            pause = next(pauses)
            self.network.at(self.network.clock.now + pause, self.retry, pauses, waited + pause)

    def deliver(self, data: bytes | None) -> None:
        """Write bytes to the target. Bytes that do not fit into the target's buffer wait."""
        if self.waiting:
            self.waiting.append(data)
            return
        if data is FIN:
            self.end_target()
            return
        assert data is not None
        sent = self.write(data)
        if sent is not None and sent < len(data):
            self.waiting.append(data[sent:])
            self.network.watch(self.target, writable=True)

    def write(self, data: bytes) -> int | None:
        """Write bytes to the target. Returns: the number of written bytes; None if the target is closed."""
        target = self.target
        self.network.tell(self.arrival, (self.brings, len(data), self.sent))
        if target.state is CLOSED:
            sent = None
        else:
            try:
                sent = target.wire.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                # After shutdown(SHUT_RD), the bytes arrive and are dropped.
                sent = None if target.is_closed_by_program() else len(data)
        if sent is None:
            self.refuse()
            return None
        self.on_wire -= sent
        if self.paused and self.on_wire < WINDOW:
            self.collect()
        return sent

    def writable(self) -> None:
        """Write waiting bytes, because the target has read."""
        while self.waiting:
            data = self.waiting.popleft()
            if data is FIN:
                self.end_target()
                break
            assert data is not None
            sent = self.write(data)
            if sent is None:
                return
            if sent < len(data):
                self.waiting.appendleft(data[sent:])
                return
        self.network.watch(self.target, writable=False)

    def end_target(self) -> None:
        """Pass the end of the stream to the target."""
        self.network.note_arrival(self, "the end")
        if self.target.state is not CLOSED:
            self.target.at_end = True
            try:
                self.target.wire.shutdown(1)
            except OSError:
                pass

    def refuse(self) -> None:
        """Send a reset, because bytes have arrived at a closed target."""
        self.waiting.clear()
        self.held.clear()
        back = self.other_way
        if back is not None and self.source.state is not CLOSED:
            back.send_reset()

    def arrive_reset(self, held_until: float = 0.0) -> None:
        """Deliver a reset. A stall holds it; a partition loses it."""
        target, network = self.target, self.network
        if self.stalled_until > max(held_until, network.clock.now):
            network.at(self.stalled_until, self.arrive_reset, self.stalled_until)
            return
        if self.is_cut():
            return
        self.waiting.clear()
        if target.state is not CLOSED:
            self.network.note_arrival(self, "a reset")
            self.network.break_off(target)
