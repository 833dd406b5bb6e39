"""``gevent.socket``: the standard ``socket`` on dhagas, see ``dhaga.socket``, and waits for a bare fd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import socket as ours
from ..._kernel.faces.stdlib_face import fall_back_to
from ...select import select
from .hub import get_hub
from .timeout import Timeout

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
SocketType = ours.socket

__implements__: list[str] = [
    "SocketType",
    "create_connection",
    "fromfd",
    "getaddrinfo",
    "getfqdn",
    "gethostbyaddr",
    "gethostbyname",
]
__implements__ += ["gethostbyname_ex", "getnameinfo", "socket", "socketpair"]
"""Names of waiting functions, which a program may put into a module."""

__all__ += ["cancel_wait", "wait", "wait_read", "wait_readwrite", "wait_write"]


def wait(io: Any, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until a watcher of the hub's loop fires. Parks: until then. Raises: as ``wait_read``."""
    with Timeout(timeout, TimeoutError("timed out") if timeout_exc is None else timeout_exc):
        get_hub().wait(io)


def wait_read(fileno: int, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until an fd can be read. Parks: until then. Raises: ``timeout_exc``, or TimeoutError, after the time."""
    wait_for(fileno, [fileno], [], timeout, timeout_exc)


def wait_write(fileno: int, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until an fd can be written. Parks: until then. Raises: ``timeout_exc``, or TimeoutError, after the time."""
    wait_for(fileno, [], [fileno], timeout, timeout_exc)


def wait_readwrite(fileno: int, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until an fd can be read or written. Parks: until then. Raises: as ``wait_read``."""
    wait_for(fileno, [fileno], [fileno], timeout, timeout_exc)


def wait_for(fileno: int, readable: list[int], writable: list[int], timeout: float | None, late: Any) -> None:
    ready = select(readable, writable, [], timeout)
    if not (ready[0] or ready[1]):
        raise TimeoutError("timed out") if late is None else late


def cancel_wait(watcher: Any, error: Any = None) -> None:
    """Not available."""
    raise NotImplementedError("a close of the dhaga.socket ends its waits; else kill the greenlet that waits")
