"""The client's end of a connection: requests, and retries after network errors.

Every request may be sent twice: a chunk that exists is kept, and a snapshot is committed once under its name. So after
a lost connection, the client always connects again and repeats the work, which begins by asking the server what has
arrived.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from .limiter import Bandwidth
from .wire import VERSION, BackupError, Refused, Wire, WireError, printable, sign
from .workers import Unit

Result = TypeVar("Result")

CONNECT_SECONDS: Final = 10.0
REPLY_SECONDS: Final = 120.0  # a commit first makes all its chunks durable
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 5.0


class Stopped(BackupError):
    """Raised if the job is ending, so that nothing is retried."""


@dataclass(frozen=True)
class Address:
    """A server's address and token. `patience`: seconds of failures after which the client gives up."""

    host: str
    port: int
    token: str = ""
    patience: float = 60.0
    reply_timeout: float = REPLY_SECONDS

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Link:
    """One connection, after the greeting."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def call(self, *request: object) -> Any:
        """Send a request. Returns: the reply.

        Parks: for a round trip.
        Raises: Refused with the server's text; OSError if the connection is lost.
        """
        self.wire.send(request)
        return _value(self.wire.receive())

    def call_each(self, requests: list[tuple[object, ...]]) -> list[Any]:
        """Send several requests in one round trip. Returns: the replies."""
        for request in requests:
            self.wire.send(request)
        replies = [self.wire.receive() for _ in requests]  # all, so that the next reply is to the next request
        return [_value(reply) for reply in replies]

    def greet(self, token: str) -> None:
        """Answer the server's greeting."""
        match self.wire.receive():
            case ["dhaga-backup", int(version), bytes(nonce)]:
                if version != VERSION:
                    raise Refused(f"the server speaks version {version}, this client {VERSION}: update the older one")
            case _:
                raise WireError("no backup server answers there")
        self.wire.send(["hello", sign(token, nonce)])
        _value(self.wire.receive())


def _value(reply: object) -> Any:
    match reply:
        case ["ok", value]:
            return value
        case ["error", str(text)]:
            raise Refused(f"the server says: {printable(text)}")
        case _:
            raise WireError("bad reply: expected ok or error")


class Client:
    """A connection of one worker, which is opened again after a failure."""

    def __init__(self, unit: Unit, address: Address, stop: Any, bandwidth: Bandwidth | None = None) -> None:
        """Create a client that connects on first use. `stop`: the event that ends all retries."""
        self.unit = unit
        self.address = address
        self.requests = 0
        self._stop = stop
        self._bandwidth = bandwidth
        self._link: Link | None = None
        self._sock: Any = None  # set before the link, which exists only after the greeting

    def connect(self) -> None:
        """Connect now, without retries, so that a wrong address is reported at once at the start of a job."""
        try:
            self._connected()
        except OSError as error:
            self.close()
            raise BackupError(f"cannot reach {self.address} ({_reason(error)}): is the server running there?") from None

    def call(self, *request: object) -> Any:
        """Send a request, with retries. Returns: the reply."""
        return self.run(lambda link: link.call(*request))

    def run(self, work: Callable[[Link], Result]) -> Result:
        """Call `work` with a connection. Repeat it from its beginning whenever the connection is lost.

        Parks: while it waits for the network, and during growing pauses between the attempts.
        Raises: BackupError if the server refuses, or after `patience` seconds of failures; Stopped.
        """
        failing_since: float | None = None
        attempt = 0
        while True:
            try:
                result = work(self._connected())
            except OSError as error:
                now = self.unit.time.monotonic()
                failing_since = failing_since or now
                self._pause(error, attempt, now - failing_since)
                attempt += 1
            else:
                self.requests += 1
                return result

    def cut(self) -> None:
        """Shut down the connection from another thread, so that its waiter continues."""
        try:
            if self._sock is not None:
                self._sock.shutdown(self.unit.socket.SHUT_RDWR)
        except OSError:  # it is shut down already
            pass

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._link is not None:
            self._link.wire.close()
            self._link = None

    def _connected(self) -> Link:
        if self._link is None:
            self._link = self._open()
        return self._link

    def _open(self) -> Link:
        place = (self.address.host, self.address.port)
        self._sock = sock = self.unit.socket.create_connection(place, timeout=CONNECT_SECONDS)
        limit = self._bandwidth
        link = Link(Wire(sock, limit.take, limit.piece) if limit else Wire(sock))
        try:
            sock.setsockopt(self.unit.socket.IPPROTO_TCP, self.unit.socket.TCP_NODELAY, 1)
            link.greet(self.address.token)
            sock.settimeout(self.address.reply_timeout)
        except BaseException:
            sock.close()
            raise
        return link

    def _pause(self, error: OSError, attempt: int, failing: float) -> None:
        self.close()
        if failing >= self.address.patience:
            raise BackupError(
                f"gave up on {self.address} after {failing:.0f} s ({_reason(error)}): start the same command again, "
                "what has arrived will not be sent twice"
            ) from None
        # Half of the pause is random, so that hundreds of workers do not reconnect at the same moment.
        if self._stop.wait(min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * random.uniform(0.5, 1.0)):
            raise Stopped("stopped")


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
