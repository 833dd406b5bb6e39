"""Limits of what a client may send and how long it may take, and the refusal it gets beyond them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much a client may send, in bytes and fields, and how long each step may take, in seconds (None: no limit)."""

    line: int = 8192
    """Size of the request line or of a field. RFC 9112, 3 asks for 8000 at least. Larger: 414, 431."""
    head: int = 65_536
    """Size of all lines together, as much as one ``recv`` brings. Browsers send some 1 KB, and cookies of 4 KB each."""
    fields: int = 100
    """Number of fields, the limit of Apache; each costs time, however short."""
    body: int | None = None
    """Size of a request's body.

    None, because it is streamed: the server buffers 64 KB, and the app knows what it expects.
    """
    idle_timeout: float | None = 75.0
    """Between two requests. Most proxies drop idle connections after 60 s; closing later than the proxy avoids the race
    with a request already on its way.
    """
    header_timeout: float | None = 20.0
    """From the first byte of a head to its last, some round trips of a bad mobile network. Then 408."""
    body_timeout: float | None = 30.0
    """For each piece of a body, of any size. Then 408. ``min_body_rate`` bounds all of them together."""
    min_body_rate: int | None = 500
    """Bytes a second that a body must bring while the server waits for it, after the first ``body_timeout`` seconds, as
    Apache's MinRate. Then 408. Without it 10,000 connections of a byte each 29 s would hold a server for ever.
    """
    write_timeout: float | None = 60.0
    """For each 64 KB of a response, until the client's kernel has taken them. Then the connection is cut."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("line", "head", "fields"):
                raise ValueError(f"{field.name} must be a number: a head without bounds would fill the memory")
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be above 0, or None for no limit, not {value!r}")

    def body_seconds(self, received: int, waited: float) -> float | None:
        """Return how long the next piece of a body may take, after so many bytes and seconds of waiting."""
        if self.body_timeout is None or self.min_body_rate is None:
            return self.body_timeout
        allowed = self.body_timeout + received / self.min_body_rate
        return max(0.0, min(self.body_timeout, allowed - waited))


class Refusal(OSError):
    """A request that is not served: ``status`` is sent to the client, the text is logged, and the connection ends."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", why)


def too_large(why: str) -> Refusal:
    return Refusal("431 Request Header Fields Too Large", why)
