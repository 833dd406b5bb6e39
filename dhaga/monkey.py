"""The swap for whole programs: ``patch()`` puts what parks in the place of what blocks, in the standard modules.

``TABLE`` is all of it. Whoever can change the imports of a program does not need this room. What other modules hold of
the same things from before is mended where that can be done: see ``changes.py``.
"""

from __future__ import annotations

import _thread
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterable
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, NamedTuple

from .adoption import adopt, give_back
from .arrivals import unwatch, watch
from .changes import Changes, Replacement, keep_originals, rebase, rebind, restore
from .imports import World
from .io import patient_stdin
from .kernel import exit, originals
from .kernel.errors import PatchError
from .lateness import refuse_late
from .reprs import follow_standard

__all__ = ["TABLE", "PatchError", "Row", "is_patched", "original", "patch", "patched_imports", "unpatch"]


class Row(NamedTuple):
    """Names of a standard module that the patch replaces by those of one of ours.

    ``why``: for private names, why no public one would do; ``when``: whether this Python, on this platform, has them.
    """

    module: str
    ours: str
    names: tuple[str, ...]
    why: str = ""
    when: bool = True


TABLE = (
    Row("time", "dhaga.time", ("sleep",)),
    Row("signal", "dhaga.signal", ("getsignal", "pause", "signal", "sigwait")),
    Row("signal", "dhaga.signal", ("sigtimedwait", "sigwaitinfo"), when=hasattr(signal, "sigtimedwait")),
    Row(
        "threading",
        "dhaga.threading",
        ("Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore", "Thread", "Timer")
        + ("active_count", "activeCount", "current_thread", "currentThread", "enumerate", "get_ident", "local")
        + ("main_thread",),
    ),
    Row(
        "threading",
        "dhaga.threading",
        ("_DummyThread", "_MainThread", "_active"),
        why="programs tell the main thread by its class, and look threads up, or their dummies, by ident",
    ),
    Row(
        "_thread",
        "dhaga.thread",
        ("LockType", "RLock", "_local", "allocate", "allocate_lock", "get_ident", "start_new", "start_new_thread"),
    ),
    Row("_thread", "dhaga.thread", ("_count",), why="test suites look by it for threads that were left over"),
    Row("_thread", "dhaga.thread", ("lock", "start_joinable_thread"), when=hasattr(_thread, "start_joinable_thread")),
    Row(
        "_thread",
        "dhaga.thread",
        ("_ThreadHandle",),
        why="it goes with start_joinable_thread",
        when=hasattr(_thread, "start_joinable_thread"),
    ),
    Row("queue", "dhaga.queue", ("LifoQueue", "PriorityQueue", "Queue", "SimpleQueue")),
    Row("_queue", "dhaga.queue", ("SimpleQueue",)),
    Row("select", "dhaga.select", ("select",)),
    Row("select", "dhaga.select", ("poll",), when=hasattr(select, "poll")),
    Row("select", "dhaga.select", ("epoll",), when=hasattr(select, "epoll")),
    Row(
        "socket",
        "dhaga.socket",
        ("SocketType", "create_connection", "create_server", "fromfd", "getaddrinfo", "getfqdn", "gethostbyaddr")
        + ("gethostbyname", "gethostbyname_ex", "getnameinfo", "socket", "socketpair"),
    ),
    Row("ssl", "dhaga.ssl", ("get_server_certificate",)),
    Row("ssl:SSLContext", "dhaga.ssl:SSLContext", ("sslsocket_class",)),  # the classes stay: their methods use super()
    Row(
        "selectors",
        "dhaga.selectors",
        ("DefaultSelector", "SelectSelector"),
    ),
    Row("selectors", "dhaga.selectors", ("PollSelector",), when=hasattr(select, "poll")),
    Row("selectors", "dhaga.selectors", ("EpollSelector",), when=hasattr(select, "epoll")),
    Row("selectors", "dhaga.selectors", ("KqueueSelector",), when=hasattr(select, "kqueue")),
    Row(
        "os",
        "dhaga.os",
        ("close", "fdopen", "read", "readv", "sendfile", "system", "wait", "wait3", "wait4", "waitpid", "write")
        + ("writev",),
    ),
    Row("os", "dhaga.os", ("waitid",), when=hasattr(os, "waitid")),
    Row("subprocess", "dhaga.subprocess", ("Popen",)),
    Row("_multiprocessing", "dhaga.semlock", ("SemLock",), when=find_spec("_multiprocessing") is not None),
    Row(
        "asyncio",
        "dhaga.asyncio",
        ("DefaultEventLoopPolicy", "Runner", "SelectorEventLoop", "get_event_loop", "get_running_loop", "run"),
    ),
    Row(
        "asyncio:DefaultEventLoopPolicy",
        "dhaga.asyncio:DefaultEventLoopPolicy",
        ("_loop_factory",),
        why="policies of programs that are derived from the standard's make loops by it",
    ),
    Row(
        "asyncio:BaseEventLoop",
        "dhaga.asyncio:BaseEventLoop",
        ("_check_thread",),
        why="in debug mode the loop of a scheduler would take its dhagas for other threads",
    ),
    Row("asyncio", "dhaga.asyncio", ("_get_running_loop",), why="asyncio asks by it whether a loop runs already"),
)
"""What is replaced. Names that other modules have bound to the same objects follow, see ``changes.rebind``."""

changes = Changes()
"""What ``unpatch`` takes back."""


def is_patched() -> bool:
    """Tell whether the standard modules are patched now."""
    return bool(changes)


def patch() -> None:
    """Replace, in the standard modules, all that ``TABLE`` names; where they are patched, do nothing.

    Parks: never. From: the main code, before other imports. All or nothing. Raises: PatchError if it comes too late.
    """
    if changes:
        return
    found = list(replacements())
    refuse_late(found)
    try:
        keep_originals(found, changes)
        for module, name, ours, _ in found:
            changes.set(module, name, ours)
        changes.set(sys, "stdin", patient_stdin())
        rebind(found, changes)
        rebase(found, changes)
        adopt()
        watch()
        follow_standard(changes)
        exit.threads_are_dhagas = True
    except BaseException:
        unpatch()
        raise


def replacements() -> list[Replacement]:
    """Import all that ``TABLE`` names: what standard modules derive from each other they derive from the standard's."""
    rows = [row for row in TABLE if row.when]
    modules = [(resolve_name(row.module), resolve_name(row.ours)) for row in rows]
    return [
        Replacement(module, name, getattr(ours, name), getattr(module, name))
        for row, (module, ours) in zip(rows, modules, strict=True)
        for name in row.names
    ]


def unpatch() -> None:
    """Put back what ``patch`` has replaced. Threads and sockets that were made meanwhile stay ours, and work."""
    if not changes:
        return
    exit.threads_are_dhagas = False
    unwatch()
    give_back()
    changes.undo()
    restore(replacements())
    for namespace in originals.namespaces.values():
        namespace.clear()


aside: list[tuple[Any, str, Any]] = []
"""What is ours in ``threading``, for the moment of a fork."""


def step_aside() -> None:
    """Let ``threading`` count its own threads after a fork, which it does by names that are replaced."""
    for owner, name, value in changes.made:
        if owner is threading:
            aside.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)


def come_back() -> None:
    while aside:
        owner, name, value = aside.pop()
        setattr(owner, name, value)


os.register_at_fork(before=step_aside, after_in_parent=come_back, after_in_child=come_back)


def original(module: str, name: str) -> Any:
    """Return what a standard module has by this name without the patch: ``original("threading", "Thread")``.

    What is waited for by such means blocks all dhagas of the OS thread. Raises: ImportError, AttributeError.
    """
    owner = importlib.import_module(module)
    for where, what, value in changes.made:
        if where is owner and what == name:
            return value
    return getattr(owner, name)


def patched_imports(*names: str, shared: Iterable[str] = ()) -> World:
    """Return a context manager: within it the caller imports private, patched copies of these packages.

    What they import is private as well, but for the standard library (see ``faces.py``), packages that bring compiled
    modules, and those in ``shared``. Objects of one block are not instances of another's classes: name in one block
    all packages that exchange them. Parks: never. Returns: the world; its ``import_module`` imports after the block.
    """
    return World(TABLE, names, tuple(shared))
