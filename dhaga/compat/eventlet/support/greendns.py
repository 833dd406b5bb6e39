"""``eventlet.support.greendns``: not available."""

from __future__ import annotations

raise ImportError(
    "names are resolved in OS threads here, while the caller is parked, by the system's own resolver: call "
    "dhaga.socket.getaddrinfo, or leave greendns out",
    name=__name__,
)
