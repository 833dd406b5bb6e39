"""The swap for whole programs: ``patch()`` puts what parks in the place of what blocks, in the standard modules.

``TABLE`` is all of it. Whoever can change the imports of a program does not need this room.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

__all__ = ["TABLE", "Row", "is_patched", "patch", "unpatch"]


class Row(NamedTuple):
    """Names of a standard module that the patch replaces by those of one of ours."""

    module: str
    ours: str
    names: tuple[str, ...]
    if_loaded: bool = False
    """Whether the module needs it only if it was imported before: else it takes the names from a patched one."""


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
    Row(
        "selectors",
        "dhaga.selectors",
        ("DefaultSelector", "EpollSelector", "KqueueSelector", "PollSelector", "SelectSelector"),
    ),
    # Private names: of what these modules have bound at import there is no other.
    Row("multiprocessing.connection", "dhaga.selectors", ("_WaitSelector",), True),
    Row("socketserver", "dhaga.selectors", ("_ServerSelector",), True),
    Row("subprocess", "dhaga.selectors", ("_PopenSelector",), True),
    Row("telnetlib", "dhaga.selectors", ("_TelnetSelector",), True),
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
        if row.if_loaded and row.module not in sys.modules:
            continue
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
