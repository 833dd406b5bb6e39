"""Limits of the size and duration of requests to a WSGI server, and the error that refuses a request."""

from __future__ import annotations

import dataclasses

from .._kernel.fast.compiled import known_layout


@known_layout
@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests: sizes in bytes, and the time of each step in seconds. None means no limit."""

    line: int = 8192
    """Maximum size of the request line, and of each field.

    RFC 9112, section 3, recommends at least 8000 bytes for the request line. A longer request line gets status 414, and
    a longer field gets status 431.
    """
    head: int = 65_536
    """Maximum size of a whole head: the request line with all fields. The default equals the size of one ``recv``.

    Browsers send heads of about 1 KB, plus up to 4 KB per cookie.
    """
    fields: int = 100
    """Maximum number of fields, as in Apache. Even a short field takes time to parse."""
    body: int | None = None
    """Maximum size of a request's body.

    The default is None, because the server buffers only 64 KB, and the app can stop reading.
    """
    idle_timeout: float | None = 75.0
    """Maximum time until a request begins, after the connection was accepted or the previous response was sent.

    Most proxies close idle connections after 60 s. If the server closed first, a proxy's request could be lost.
    """
    header_timeout: float | None = 20.0
    """Maximum time from the first to the last byte of a head. A slower client gets status 408.

    The default allows several round trips of a bad mobile network.
    """
    body_timeout: float | None = 30.0
    """Maximum time until the next bytes of a body arrive, however few. A slower client gets status 408.

    ``min_body_rate`` limits the time of the whole body.
    """
    min_body_rate: int | None = 500
    """Minimum rate of a body, in bytes per second of waiting, after the first ``body_timeout`` seconds.

    A slower client gets status 408, as with Apache's MinRate. Without this limit, 10,000 clients that each send one
    byte every 29 s would occupy a server indefinitely.
    """
    write_timeout: float | None = 60.0
    """Maximum time until the send buffer has accepted the next 64 KB of a response, or the next 1 MB of a file.

    If a client is slower, the server closes the connection.
    """

    queue_timeout: float | None = 30.0
    """Maximum time that a request waits for its turn in an app with a limited ``concurrency``.

    A request that waits longer gets status 503.
    """
    request_timeout: float | None = None
    """Maximum time until the app has answered. The app's waits for the client are included.

    If the app is slower, its stack is logged, and the client receives status 503, unless the response has begun. The
    default is None, because long polls and streams may last for hours. The limit interrupts an app that waits. With
    preemption, it also interrupts an app that computes (``docs/explained/deadlines.md``).
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
    """The refusal of a request. The client receives ``status``, the text is logged, and the connection ends.

    ``received``: the bytes of a head that came in several parts, for the log.
    """

    received: bytes = b""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", why)


def too_large(why: str) -> Refusal:
    return Refusal("431 Request Header Fields Too Large", why)
