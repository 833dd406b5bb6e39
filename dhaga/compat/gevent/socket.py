"""``gevent.socket``: the standard ``socket`` on dhagas (see ``dhaga.socket``), and waits for a bare fd."""

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
"""Names of functions and classes that may wait. A program may copy these into another module."""

__all__ += ["cancel_wait", "wait", "wait_read", "wait_readwrite", "wait_write"]


def wait(io: Any, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until a watcher of the hub's loop fires. Parks: until then. Raises: the same errors as ``wait_read``."""
    with Timeout(timeout, TimeoutError("timed out") if timeout_exc is None else timeout_exc):
        get_hub().wait(io)


def wait_read(fileno: int, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until an fd is readable. Parks: until then. Raises: ``timeout_exc`` or TimeoutError after ``timeout`` s."""
    wait_for(fileno, [fileno], [], timeout, timeout_exc)


def wait_write(fileno: int, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until an fd is writable. Parks: until then. Raises: ``timeout_exc`` or TimeoutError after ``timeout`` s."""
    wait_for(fileno, [], [fileno], timeout, timeout_exc)


def wait_readwrite(fileno: int, timeout: float | None = None, timeout_exc: Any = None) -> None:
    """Wait until an fd is readable or writable. Parks: until then. Raises: the same errors as ``wait_read``."""
    wait_for(fileno, [fileno], [fileno], timeout, timeout_exc)


def wait_for(fileno: int, readable: list[int], writable: list[int], timeout: float | None, late: Any) -> None:
    ready = select(readable, writable, [], None if timeout is None else max(0, timeout))
    if not (ready[0] or ready[1]):
        raise TimeoutError("timed out") if late is None else late


def cancel_wait(watcher: Any, error: Any = None) -> None:
    """Raise NotImplementedError: a wait ends when its socket is closed or its greenlet is killed."""
    raise NotImplementedError("a close of the dhaga.socket ends its waits; else kill the greenlet that waits")
