"""The swap for whole programs: ``patch()`` puts what parks in the place of what blocks, in the standard modules.

``TABLE`` is all of it. Whoever can change the imports of a program does not need this room.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

__all__ = ["TABLE", "Row", "is_patched", "patch", "unpatch"]


class Row(NamedTuple):
    """Names of a standard module that the patch replaces by those of one of ours."""

    module: str
    ours: str
    names: tuple[str, ...]


TABLE = (
    Row("time", "dhaga.time", ("sleep",)),
    Row(
        "threading",
        "dhaga.threading",
        ("Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore", "Thread", "Timer")
        + ("active_count", "activeCount", "current_thread", "currentThread", "enumerate", "get_ident", "local")
        + ("main_thread",),
    ),
    Row(
        "_thread",
        "dhaga.thread",
        ("LockType", "RLock", "_local", "allocate", "allocate_lock", "get_ident", "start_new", "start_new_thread"),
    ),
    Row("queue", "dhaga.queue", ("LifoQueue", "PriorityQueue", "Queue", "SimpleQueue")),
    Row("_queue", "dhaga.queue", ("SimpleQueue",)),
    Row("select", "dhaga.select", ("select", "poll", "epoll")),
    Row(
        "socket",
        "dhaga.socket",
        ("SocketType", "create_connection", "create_server", "fromfd", "getaddrinfo", "getfqdn", "gethostbyaddr")
        + ("gethostbyname", "gethostbyname_ex", "getnameinfo", "socket", "socketpair"),
    ),
    Row("ssl", "dhaga.ssl", ("get_server_certificate",)),
)
"""What is replaced: nothing else is."""

former: list[tuple[Any, str, Any]] = []
"""What ``unpatch`` puts back: module, name, value."""


def is_patched() -> bool:
    """Tell whether the standard modules are patched now."""
    return bool(former)


def patch() -> None:
    """Replace, in the standard modules, all that ``TABLE`` names. Parks: never."""
    if former:
        return
    for row in TABLE:
        module, ours = importlib.import_module(row.module), importlib.import_module(row.ours)
        for name in row.names:
            if hasattr(module, name) and hasattr(ours, name):
                former.append((module, name, getattr(module, name)))
                setattr(module, name, getattr(ours, name))


def unpatch() -> None:
    """Put back what ``patch`` has replaced."""
    while former:
        module, name, value = former.pop()
        setattr(module, name, value)
