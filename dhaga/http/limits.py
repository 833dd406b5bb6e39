"""What a client may do: how much it may send, how long it may take, and what it is told when it does otherwise."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much a client may send, in bytes and fields, and how long each step may take, in seconds (None: for ever)."""

    line: int = 8192
    """A request line or a field. RFC 9112, 3: at least 8000 for a request line. Larger: 414, 431."""
    head: int = 65_536
    """All lines together: as much as one ``recv`` brings. Browsers send some 1 KB, and cookies of 4 KB each."""
    fields: int = 100
    """What Apache allows, too; each costs time, however short."""
    body: int | None = None
    """A request's body. None, as it is streamed: the server holds 64 KB of it, and the app knows what it expects."""
    idle_timeout: float | None = 75.0
    """Between two requests. Proxies drop idle connections after 60 s mostly; whoever keeps them longer does not meet
    a request that is on its way."""
    header_timeout: float | None = 20.0
    """From the first byte of a head to its last: some round trips of a bad mobile network. Then 408."""
    body_timeout: float | None = 30.0
    """For each piece of a body, of any size. Then 408."""
    write_timeout: float | None = 60.0
    """For each piece of a response, of 64 KB, until the client's system has taken it. Then the connection is cut."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("line", "head", "fields"):
                raise ValueError(f"{field.name} must be a number: a head without bounds would fill the memory")
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be above 0, or None for no limit, not {value!r}")


class Refusal(OSError):
    """A request that is not served: ``status`` says so to the client, the text to the log. The connection ends."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", why)


def too_large(why: str) -> Refusal:
    return Refusal("431 Request Header Fields Too Large", why)
