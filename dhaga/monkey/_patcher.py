"""The patch: ``patch()`` puts what parks in the place of what blocks, in the standard modules.

``TABLE`` is all that is replaced by name. ``patch`` works in this order:

1. ``_other_hubs`` refuses one beside gevent's or eventlet's, ``_preconditions`` one that comes too late;
2. the standard classes that Dhaga uses keep their globals (``_rebind.keep_originals``);
3. the names of the table, and ``sys.stdin``, are replaced;
4. names and base classes that other modules took before follow (``rebind``, ``rebase``);
5. live locks, queues and thread-locals are upgraded in place (``_upgrade_locks``);
6. post-import hooks (``_post_import``) and the standard's reprs (``_stdlib_reprs``) are added.

``log`` records each attribute that is set, and is empty while nothing is patched. ``unpatch`` removes the hooks,
downgrades the locks, and then undoes the log from its end. An error in ``patch`` calls ``unpatch``: all or nothing. For
the moment of a fork ``threading`` gets its own names back, since its after-fork handler counts its threads by them, and
so does ``signal.set_wakeup_fd``, which asyncio's handler calls before a dhaga that forks is the child's main thread.
"""

from __future__ import annotations

import _thread
import importlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any, NamedTuple

from .._kernel import originals, shutdown
from .._kernel.errors import PatchError
from ..io import parking_stdin
from ._other_hubs import refuse_other_patches
from ._post_import import add_hooks, remove_hooks
from ._preconditions import refuse_late
from ._private_imports import PrivateModules
from ._rebind import PatchLog, Replacement, keep_originals, rebase, rebind, rebind_back
from ._stdlib_reprs import use_standard_reprs
from ._upgrade_locks import downgrade_locks, upgrade_locks

__all__ = ["TABLE", "PatchError", "Row", "is_patched", "original", "patch", "patched_imports", "unpatch"]


class Row(NamedTuple):
    """Names of a standard module that the patch replaces by those of one of ours.

    ``why``: why a private name is needed; ``when``: whether this Python, on this platform, has the names.
    """

    module: str
    ours: str
    names: tuple[str, ...]
    why: str = ""
    when: bool = True


POLICIES_ARE_PRIVATE = sys.version_info >= (3, 14)
"""Whether the public names of asyncio's event loop policies are deprecated: to read one warns."""

TABLE = (
    Row("time", "dhaga.time", ("sleep",)),
    Row("time", "dhaga.time", ("pthread_getcpuclockid",), when=hasattr(time, "pthread_getcpuclockid")),
    Row("signal", "dhaga.signal", ("getsignal", "pause", "set_wakeup_fd", "signal", "sigwait")),
    Row("signal", "dhaga.signal", ("pthread_kill",), when=hasattr(signal, "pthread_kill")),
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
        why="programs recognise the main thread by its class, and look threads up, or their dummies, by ident",
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
    Row("ssl:SSLContext", "dhaga.ssl:SSLContext", ("sslsocket_class",)),  # the classes stay: their methods call super()
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
    Row("os", "dhaga.os", ("readinto",), when=hasattr(os, "readinto")),
    Row("os", "dhaga.os", ("waitid",), when=hasattr(os, "waitid")),
    Row("subprocess", "dhaga.subprocess", ("Popen",)),
    Row("_multiprocessing", "dhaga._sync.semlock", ("SemLock",), when=find_spec("_multiprocessing") is not None),
    Row(
        "asyncio",
        "dhaga.asyncio",
        ("Runner", "SelectorEventLoop", "run"),
    ),
    Row("asyncio", "dhaga.asyncio", ("DefaultEventLoopPolicy",), when=not POLICIES_ARE_PRIVATE),
    Row(
        "asyncio.unix_events",
        "dhaga.asyncio",
        ("_DefaultEventLoopPolicy",),
        why="asyncio makes its policy by it, and by its deprecated public name programs get it",
        when=POLICIES_ARE_PRIVATE,
    ),
    Row(
        "asyncio.unix_events:_DefaultEventLoopPolicy" if POLICIES_ARE_PRIVATE else "asyncio:DefaultEventLoopPolicy",
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
)
"""What is replaced. Names that other modules have bound to the same objects follow, see ``_rebind.rebind``."""

log = PatchLog()
"""What ``unpatch`` undoes."""


def is_patched() -> bool:
    """Report whether the standard modules are patched now."""
    return bool(log)


def patch() -> None:
    """Replace in the standard modules all that ``TABLE`` names; while they are patched, do nothing.

    Parks: never. From: the main code, before other imports. All or nothing. Raises: PatchError if it comes too late,
    or after a patch of gevent's or eventlet's.
    """
    patch_after()


def patch_after(*known: str) -> None:
    """Patch, although these packages are imported already: their subclasses of Thread are derived from ours instead.

    Other subclasses of theirs keep their bases, so each package was read for what those do.
    """
    if log:
        return
    wanted = list(replacements())
    refuse(wanted, known)
    try:
        keep_originals(wanted, log)
        for module, name, ours, _ in wanted:
            log.set(module, name, ours)
        log.set(sys, "stdin", parking_stdin())
        rebind(wanted, log)
        rebase(wanted, log, known)
        upgrade_locks()
        add_hooks()
        use_standard_reprs(log)
        shutdown.threads_are_dhagas = True
    except BaseException:
        unpatch()
        raise


def refuse(wanted: Iterable[Replacement], known: Iterable[str] = ()) -> None:
    """Raise PatchError if a patch would come too late, or is one of two."""
    refuse_other_patches()
    refuse_late(wanted, known)


def replacements() -> list[Replacement]:
    """Import all that ``TABLE`` names, before any is replaced, so that standard classes derive from standard ones."""
    rows = [row for row in TABLE if row.when]
    modules = [(resolve_name(row.module), resolve_name(row.ours)) for row in rows]
    return [
        Replacement(module, name, getattr(ours, name), getattr(module, name))
        for row, (module, ours) in zip(rows, modules, strict=True)
        for name in row.names
    ]


def unpatch() -> None:
    """Undo ``patch``. Threads, sockets and locks made meanwhile stay ours, and go on to work."""
    if not log:
        return
    shutdown.threads_are_dhagas = False
    remove_hooks()
    downgrade_locks()
    log.undo()
    rebind_back(replacements())
    for namespace in originals.namespaces.values():
        namespace.clear()


set_aside: list[tuple[Any, str, Any]] = []
"""What is ours and set aside while a fork is under way."""


def restore_for_fork() -> None:
    """Give the standard modules back, for a fork, what their after-fork handlers call."""
    for owner, name, value in log.entries:
        if owner is threading or (owner, name) == (signal, "set_wakeup_fd"):
            set_aside.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)


def replace_after_fork() -> None:
    while set_aside:
        owner, name, value = set_aside.pop()
        setattr(owner, name, value)


os.register_at_fork(before=restore_for_fork, after_in_parent=replace_after_fork, after_in_child=replace_after_fork)


def original(module: str, name: str) -> Any:
    """Return what a standard module has by this name without the patch: ``original("threading", "Thread")``.

    A wait by such a function or lock blocks the OS thread with all its dhagas. Raises: ImportError, AttributeError.
    """
    owner = importlib.import_module(module)
    for where, what, value in log.entries:
        if where is owner and what == name:
            return value
    return getattr(owner, name)


def patched_imports(*names: str, shared: Iterable[str] = ()) -> PrivateModules:
    """Return a context manager in which the caller imports private, patched copies of these packages.

    What they import is private, too, apart from the standard library (see ``_private_stdlib.py``), packages with
    compiled modules, and those in ``shared``. Objects of one block are not instances of another's classes: name all
    packages that exchange them in one block.
    Parks: never. Returns: the private modules; their ``import_module`` imports after the block, too.
    """
    return PrivateModules(TABLE, names, tuple(shared))
