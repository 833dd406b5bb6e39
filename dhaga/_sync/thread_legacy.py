"""Deprecated and private attributes of ``threading.Thread``. ``thread_attributes.py`` has the public attributes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from .event import Event
from .lock import Lock
from .thread_attributes import ThreadAttributes


class ReadName:
    """An attribute that is computed when it is read. Unlike a property, it can be replaced by a value."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, thread: Any, kind: type | None = None) -> Any:
        return self if thread is None else self.compute(thread)


class LegacyThreadNames(ThreadAttributes):
    """The deprecated methods, and the private attributes that debuggers, monitors and reloaders read."""

    _stderr: Any = None
    _start_event_: Event | None = None
    _end_lock_: Lock | None = None

    def getName(self) -> str:
        """Return the name. Source: ``threading``, which also deprecates this method."""
        warn("getName() is deprecated, get the name attribute instead")
        return self.name

    def setName(self, name: str) -> None:
        """Set the name. Source: ``threading``, which also deprecates this method."""
        warn("setName() is deprecated, set the name attribute instead")
        self.name = name

    def isDaemon(self) -> bool:
        """Return ``daemon``. Source: ``threading``, which also deprecates this method."""
        warn("isDaemon() is deprecated, get the daemon attribute instead")
        return self.daemon

    def setDaemon(self, daemonic: bool) -> None:
        """Set ``daemon``. Source: ``threading``, which also deprecates this method."""
        warn("setDaemon() is deprecated, set the daemon attribute instead")
        self.daemon = daemonic

    @ReadName
    def _initialized(self) -> bool:
        return "_dhaga" in self.__dict__

    @ReadName
    def _is_stopped(self) -> bool:
        return self.ident is not None and not self.is_alive()

    @ReadName
    def _started(self) -> Event:
        """An event that is set when the thread has started."""
        # Created on first use: few programs read the event, and creating it costs as much as a switch.
        event: Event = self.__dict__.setdefault("_start_event_", Event())
        if self.ident is not None:
            event.set()
        return event

    def _set_native_id(self) -> None:
        """Update ``native_id``; ``multiprocessing`` calls this method in a forked child."""
        self._native_id = threading.get_native_id()

    def _tell_started_(self) -> None:
        if self._start_event_ is not None:
            self._start_event_.set()

    @ReadName
    def _tstate_lock(self) -> Lock | None:
        """A lock that is held while the thread lives, created on first use. Source: the standard Thread up to 3.12."""
        if self._dhaga is None or self._dhaga.has_ended:
            return None
        if self._end_lock_ is None:
            made = ThreadEndLock(self.daemon)
            if self.__dict__.setdefault("_end_lock_", made) is made:
                self._dhaga._joiners.append([made])
                # Check again: the thread may have ended in its OS thread just before the append.
                if self._dhaga.has_ended:
                    self._dhaga.release_joiners()
            else:  # another caller has created the lock first
                made.deliver_wake()
        return self._end_lock_


class ThreadEndLock(Lock):
    """A lock that is released at the end of a thread. The interpreter's exit waits for non-daemon threads' locks."""

    # The lock is one of the dhaga's joiners: the end of the dhaga calls deliver_wake() of each joiner.
    __slots__ = ()

    def __init__(self, daemon: bool) -> None:
        super().__init__()
        self.acquire()
        if not daemon:
            shutdown_locks().add(self)

    def deliver_wake(self, value: object = None, error: BaseException | None = None) -> None:
        """Release the lock at the end of the thread."""
        shutdown_locks().discard(self)
        self.release()


def shutdown_locks() -> set[Any]:
    """Return the locks that the interpreter's exit waits for. Python 3.13 and later have none, so the set is empty."""
    return getattr(threading, "_shutdown_locks", set())


def warn(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)
