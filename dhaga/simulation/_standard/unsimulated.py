"""Calls that leave the simulation. They raise NotSimulated, unless the program's author allows their kind.

An audit hook detects these calls, including calls by C code. Replaced functions detect calls that raise no audit event.
The interpreter cannot remove an audit hook, so the hook does nothing outside a simulation.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..._kernel import originals
from ...monkey._rebind import Replacement
from .._base.errors import NotSimulated
from .._base.here import here
from .._base.undoing import Undoing
from ..disk import _real

_posixsubprocess: Any
try:
    import _posixsubprocess
except ImportError:  # Windows
    _posixsubprocess = None

KINDS = {
    "fifos": "open() waits in C for the other end: give the program os.pipe() or a socketpair",
    "network": "a real address answers when it likes: give the program a fake of the other side, or a socketpair",
    "processes": "another process has its own clock and schedule: give the program a fake of it",
    "signals": "a real timer does not wait for the virtual clock: use threading.Timer",
    "threads": "an OS thread runs when it likes: spawn a dhaga (dhaga.spawn, threading.Thread)",
}
"""The kinds of calls that a simulation can allow. Each text gives the reason for the refusal and an alternative."""

EVENTS = {
    "open": "fifos",
    "os.exec": "processes",
    "os.fork": "processes",
    "os.forkpty": "processes",
    "os.posix_spawn": "processes",
    "os.spawn": "processes",
    "os.system": "processes",
    "pty.spawn": "processes",
    "socket.bind": "network",
    "socket.connect": "network",
    "socket.getaddrinfo": "network",
    "socket.gethostbyaddr": "network",
    "socket.gethostbyname": "network",
    "socket.getnameinfo": "network",
    "socket.sendmsg": "network",
    "socket.sendto": "network",
    "signal.alarm": "signals",
    "signal.setitimer": "signals",
    "subprocess.Popen": "processes",
    "fork_exec": "processes",
    "_thread.start_joinable_thread": "threads",
    "_thread.start_new_thread": "threads",
}
"""The audit events, and the names that replaced functions pass to ``check``, each with its kind of call."""

TIMERS = ("alarm", "setitimer")

ENDS_ELSEWHERE = os.O_RDWR | getattr(os, "O_NONBLOCK", 0)
"""The flags of ``open`` with which opening a FIFO does not wait for the FIFO's other end."""

STARTS_ARE_AUDITED = sys.version_info >= (3, 12)
"""Whether the start of a thread raises an audit event."""


def check_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """Check and return the kinds that a program allows. Raises: ValueError, TypeError."""
    if isinstance(kinds, str):
        raise TypeError(f"allow takes several kinds, [{kinds!r}], and not {kinds!r}")
    found = frozenset(kinds)
    if unknown := found - KINDS.keys():
        raise ValueError(f"what may be allowed is {', '.join(KINDS)}, and not {', '.join(map(repr, unknown))}")
    return found


class Unsimulated:
    """The kinds that one simulation allows. ``addresses``: the paths to which the program has bound Unix sockets."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = check_kinds(allowed)
        self.addresses: set[Any] = set()

    def install(self, undoing: Undoing) -> None:
        """Refuse calls from the start of the simulation until its end."""
        global hooked
        if not hooked:
            hooked = True
            sys.addaudithook(on_audit)
        if not STARTS_ARE_AUDITED:
            namespace = originals.namespaces["threading"]
            namespace["_start_new_thread"] = start_new_thread
            undoing.callback(namespace.__setitem__, "_start_new_thread", originals.start_new_thread)

    def check(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise NotSimulated if the call of an audit event leaves the simulation and is not allowed."""
        kind = EVENTS[event]
        if kind in self.allowed:
            return
        if event in ("socket.bind", "socket.connect", "socket.sendto") and isinstance(arguments[1], (str, bytes)):
            if event == "socket.bind":
                self.addresses.add(arguments[1])
            if arguments[1] in self.addresses:
                return
        if event in ("socket.getaddrinfo", "socket.getnameinfo") and _real.depth:
            return  # a call of the simulation's own functions, for an address
        if event == "socket.sendmsg" and arguments[1] is None:
            return
        if event == "open" and not waits_for_other_end(*arguments):
            return
        raise refused(event.removeprefix("_thread."), arguments, kind)


def waits_for_other_end(path: Any, mode: object, flags: int | None) -> bool:
    """Return whether a call of ``open`` opens a FIFO, and so waits in C for the FIFO's other end."""
    if isinstance(path, int) or (flags or 0) & ENDS_ELSEWHERE:
        return False
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, TypeError, ValueError):  # no such file, or a bad path: the open itself raises
        return False


def refused(call: str, arguments: tuple[Any, ...], kind: str) -> NotSimulated:
    shown = ", ".join(repr(each)[:60] for each in arguments if type(each).__name__ not in ("socket", "function"))
    return NotSimulated(
        f"{call}({shown}) is not simulated, because {KINDS[kind]};\nor let it through: allow=[{kind!r}], on the "
        f"command line --allow {kind}, if it need not repeat with the seed"
    )


hooked = False


def on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and (simulation := here()) is not None:
        simulation.unsimulated.check(event, arguments)


def start_new_thread(*arguments: Any) -> Any:
    """Start an OS thread, unless a simulation refuses it. From: the original ``threading.Thread`` on CPython 3.11."""
    if (simulation := here()) is not None:
        simulation.unsimulated.check("_thread.start_new_thread", arguments)
    return originals.start_new_thread(*arguments)


def refusing_timer(name: str) -> Callable[..., Any]:
    real = getattr(signal, name)

    def timer(*arguments: Any) -> Any:
        turns_off = arguments[name == "setitimer" :][:1] == (0,)
        if not turns_off and (simulation := here()) is not None:
            simulation.unsimulated.check(f"signal.{name}", arguments)
        return real(*arguments)

    return timer


standard_fork_exec: Any = getattr(_posixsubprocess, "fork_exec", None)

TRACKER = b"from multiprocessing.resource_tracker "
"""The beginning of the code of multiprocessing's resource tracker, a process that unlinks semaphores after the program
has ended.
"""


def refusing_fork_exec(arguments: Any, *others: Any) -> Any:
    """Start a process, unless a simulation refuses it. From: ``multiprocessing``, with spawn or forkserver."""
    simulation = here()
    if simulation is not None and not any(os.fsencode(each).startswith(TRACKER) for each in arguments):
        simulation.unsimulated.check("fork_exec", (arguments,))
    return standard_fork_exec(arguments, *others)


REPLACED = [
    Replacement(module, name, ours, getattr(module, name))
    for module, name, ours in (
        *((signal, name, refusing_timer(name)) for name in TIMERS if hasattr(signal, name)),
        (_posixsubprocess, "fork_exec", refusing_fork_exec),
    )
    if module is not None
]
"""The replaced functions. On some versions of Python, calls of these functions raise no audit event."""
