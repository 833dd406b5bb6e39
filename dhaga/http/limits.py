"""Limits of the size and time of a client's requests, and the refusal of a request beyond them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a client's requests, in bytes and fields, and of each step's time, in seconds (None: no limit)."""

    line: int = 8192
    """Size of the request line or of a field. RFC 9112, 3 recommends at least 8000. Larger: 414, 431."""
    head: int = 65_536
    """Size of all lines together: the size of one ``recv``. Browsers send about 1 KB, and cookies up to 4 KB each.
    """
    fields: int = 100
    """Number of fields, the limit of Apache; each costs time, however short."""
    body: int | None = None
    """Size of a request's body.

    None, because it is streamed: the server buffers 64 KB, and the app knows what it expects.
    """
    idle_timeout: float | None = 75.0
    """Time between two requests. Most proxies drop idle connections after 60 s; closing later than the proxy avoids a
    race with a request already on its way.
    """
    header_timeout: float | None = 20.0
    """Time from the first byte of a head to its last: some round trips of a bad mobile network. Then 408."""
    body_timeout: float | None = 30.0
    """Time for each piece of a body, of any size. Then 408. ``min_body_rate`` bounds all pieces together."""
    min_body_rate: int | None = 500
    """Bytes of a body for each second that the server waits for it, after the first ``body_timeout`` seconds; like
    Apache's MinRate. Then 408. Without it, 10,000 connections that send a byte every 29 s would occupy a server for
    ever.
    """
    write_timeout: float | None = 60.0
    """Time for the client's kernel to accept each 64 KB of a response. Then the connection is cut."""

    queue_timeout: float | None = 30.0
    """Time for a request to wait for its turn in the app, with ``concurrency`` of ``Server``. Then 503."""
    request_timeout: float | None = None
    """Time for the app to answer, with its waits for the client. Then 503, and the app's stack in the log.

    None, because long polls and streams last. The limit ends waits, and also code that computes if views are preempted:
    see ``docs/explained/deadlines.md``.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("line", "head", "fields"):
                raise ValueError(f"{field.name} must be a number: a head without bounds would fill the memory")
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be above 0, or None for no limit, not {value!r}")

    def body_seconds(self, received: int, waited: float) -> float | None:
        """Return the time limit of a body's next piece, after ``received`` bytes and ``waited`` seconds of waiting."""
        if self.body_timeout is None or self.min_body_rate is None:
            return self.body_timeout
        allowed = self.body_timeout + received / self.min_body_rate
        return max(0.0, min(self.body_timeout, allowed - waited))


class Refusal(OSError):
    """A refused request: ``status`` is sent to the client, the text is logged, and the connection ends."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", why)


def too_large(why: str) -> Refusal:
    return Refusal("431 Request Header Fields Too Large", why)
