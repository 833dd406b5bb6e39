"""The table of the names that the patch (``_patcher.py``) replaces in standard modules."""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import time
from importlib.util import find_spec
from typing import NamedTuple

from .._kernel.platform.system import system


class Row(NamedTuple):
    """Names in a standard module that the patch replaces with the same names of a module of Dhaga.

    ``why``: the reason for the replacement of a private name.
    ``when``: whether this Python has the names on this platform.
    """

    module: str
    ours: str
    names: tuple[str, ...]
    why: str = ""
    when: bool = True


POLICIES_ARE_PRIVATE = sys.version_info >= (3, 14)
"""Whether asyncio's public names of event loop policies are deprecated, so that reading such a name warns."""

TABLE = (
    Row("time", "dhaga.time", ("sleep",)),
    Row("time", "dhaga.time", ("pthread_getcpuclockid",), when=hasattr(time, "pthread_getcpuclockid")),
    Row("signal", "dhaga.signal", ("getsignal", "set_wakeup_fd", "signal")),
    Row("signal", "dhaga.signal", ("pause", "sigwait"), when=hasattr(signal, "pause")),
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
        ("setprofile_all_threads", "settrace_all_threads"),
        when=sys.version_info >= (3, 12),
    ),
    Row(
        "threading",
        "dhaga.threading",
        ("_DummyThread", "_MainThread", "_active"),
        why="programs recognise the main thread by its class, and look up threads, or their dummies, by ident",
    ),
    Row(
        "_thread",
        "dhaga.thread",
        ("LockType", "RLock", "_local", "allocate", "allocate_lock", "get_ident", "start_new", "start_new_thread"),
    ),
    Row("_thread", "dhaga.thread", ("_count",), why="test suites find leftover threads with this function"),
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
    Row("select", "dhaga.select", ("kqueue",), when=hasattr(select, "kqueue")),
    Row(
        "socket",
        "dhaga.socket",
        ("SocketType", "create_connection", "create_server", "fromfd", "getaddrinfo", "getfqdn", "gethostbyaddr")
        + ("gethostbyname", "gethostbyname_ex", "getnameinfo", "socket", "socketpair"),
    ),
    Row("ssl", "dhaga.ssl", ("get_server_certificate",)),
    Row("ssl:SSLContext", "dhaga.ssl:SSLContext", ("sslsocket_class",)),  # the class stays: its methods call super()
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
        ("close", "closerange", "dup2", "fdopen", "open", "system"),
    ),
    Row(
        "os",
        "dhaga.os",
        ("read", "readv", "sendfile", "wait", "wait3", "wait4", "waitpid", "write", "writev"),
        when=system.WAITS_FOR_FILES,
    ),
    Row("os", "dhaga.os", ("eventfd_read", "eventfd_write"), when=hasattr(os, "eventfd_read")),
    Row("os", "dhaga.os", ("splice",), when=hasattr(os, "splice")),
    Row("os", "dhaga.os", ("fork",), when=hasattr(os, "fork")),
    Row("os", "dhaga.os", ("forkpty",), when=hasattr(os, "forkpty")),
    Row("os", "dhaga.os", ("readinto",), when=hasattr(os, "readinto")),
    Row("os", "dhaga.os", ("waitid",), when=hasattr(os, "waitid")),
    Row("builtins", "dhaga.io", ("open",)),
    Row("io", "dhaga.io", ("open",)),
    Row("builtins", "dhaga._iowait.terminal", ("input",)),
    Row("getpass", "dhaga.io", ("_raw_input",), why="getpass reads through io.FileIO, which is written in C"),
    Row("subprocess", "dhaga.subprocess", ("Popen",)),
    Row("fcntl", "dhaga._iowait.flock", ("flock",), when=find_spec("fcntl") is not None),
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
        why="asyncio creates its policy from this class, and programs get the class by a deprecated public name",
        when=POLICIES_ARE_PRIVATE,
    ),
    Row(
        "asyncio.unix_events:_DefaultEventLoopPolicy" if POLICIES_ARE_PRIVATE else "asyncio:DefaultEventLoopPolicy",
        "dhaga.asyncio:DefaultEventLoopPolicy",
        ("_loop_factory",),
        why="policies of programs, derived from the standard policy, create loops with this factory",
    ),
    Row(
        "asyncio:BaseEventLoop",
        "dhaga.asyncio:BaseEventLoop",
        ("_check_thread",),
        why="in debug mode, the loop of a scheduler would mistake its dhagas for other threads",
    ),
)
"""The replaced names. In other modules, ``_rebind.rebind`` also replaces names that are bound to the same objects."""
