"""The one room that knows dhagas from OS threads and from gevent's greenlets.

Everything else takes `threading`, `socket` and `time` from here, as it would import the standard modules.
NOTIFICATIONS_RUNTIME chooses, for the comparison in `benchmarks.notifications`: there the line protocol runs from the
same source on all three. The HTTP endpoints and Redis need Dhaga.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

NAME: Final = os.environ.get("NOTIFICATIONS_RUNTIME", "dhaga")
RUNTIMES: Final = ("dhaga", "threads", "gevent")

if NAME not in RUNTIMES:
    raise SystemExit(f"NOTIFICATIONS_RUNTIME={NAME} is none of {', '.join(RUNTIMES)}")

if NAME == "gevent":
    from gevent import monkey

    monkey.patch_all()

if TYPE_CHECKING or NAME == "dhaga":
    from dhaga import socket, threading, time
    from dhaga.servers import TCPServer as Server
else:
    import socket
    import threading
    import time

    from .threaded_server import Server

__all__ = ["NAME", "RUNTIMES", "Server", "send_now", "socket", "threading", "time"]

DONTWAIT: Final = int(socket.MSG_DONTWAIT)


def send_now(sock: Any, data: Any) -> int:
    """Send what the socket takes at once. Parks: never. Returns: how many bytes, 0 if its buffer is full."""
    if NAME == "gevent":
        sock = sock._sock  # gevent's own send() would wait, whatever the flags say
    try:
        return int(sock.send(data, DONTWAIT))
    except BlockingIOError:
        return 0
