"""The state of one file, which all its layers share. It is also their lock.

The compiled layers of ``io`` need one operation at a time on one file. A second caller in the same OS thread, while the
first is parked in the middle of a layer, would get ``RuntimeError: reentrant call`` or a torn line. So each operation
first acquires the file's ``FileState``, an RLock. The files themselves are in ``offloaded_file.py``.

Besides the lock's owner it has these states. ``late_cancel``: a cancel arrived during an operation that could not be
undone; the next operation raises it. ``closing``: a caller of ``close`` waits, so a dhaga that waits for data gets
EBADF. ``finalizing``: a finalizer closes the file, without locking or parking. ``watchers``: set only for pipes,
sockets and terminals, whose operations wait for readiness first.

Rejected: instead of a lock, a change of the file's ``__class__`` while a caller is parked in the file. Reading a line
would take a third of the time, but the file could not be handed over.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.platform.system import system
from .._kernel.run.fd_watch import FdWatchers, closed_error
from .._kernel.run.turn_budget import yield_if_due, yield_uncancelled_if_due
from .._kernel.wait.current import this_waiter
from .._sync.lock import RLock
from .._workers.offload import OffloadPool
from . import cached_reads

C = TypeVar("C", bound=type)

MOSTLY_BUFFERED = {"read", "readline", "write"}
"""Operations that the buffer usually serves; they have at most one argument."""


class FileState(RLock):
    """State and lock of one file. It also runs the holder's blocking operations in the pool."""

    __slots__ = ("closing", "finalizing", "late_cancel", "leaves_fd_open", "pool", "reads_cached", "watchers")

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__()
        self._count = 1  # preset: the written-out fast path takes the lock only by setting ``_holder``
        self.pool: OffloadPool = pool
        self.late_cancel: bool = False  # a cancel arrived too late for one operation; the next one raises it
        self.watchers: FdWatchers | None = None  # of a pipe, socket or terminal; None for a file on disk
        self.reads_cached: bool = False  # a file on disk whose cached data is read without a thread
        self.closing: bool = False  # a caller of ``close`` waits for the lock
        self.leaves_fd_open: bool = False  # the file was opened with ``closefd=False``
        self.finalizing: bool = False  # a finalizer closes the file: it must not park

    def _holders(self) -> list[object]:
        return [] if self._holder is None else [self._holder]

    def __repr__(self) -> str:
        return super().__repr__().replace("RLock", "FileState", 1)

    def __enter__(self) -> bool:
        # The finalizer has the only reference, and at interpreter exit greenlet no longer names the caller.
        if self.finalizing:
            return True
        # Only at the outermost entry: a nested one is in the middle of an operation.
        if self.late_cancel and not self._is_owned():
            self.raise_late_cancel()
        return super().__enter__()

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        if not self.finalizing:
            self.release()

    def acquire_to_close(self) -> None:
        """Acquire the lock for ``close``, in spite of cancels. An owner that waits for data gets an OSError."""
        if self.finalizing:
            return
        if self._is_owned():
            self._count += 1
            return
        self.closing = True
        if self.watchers is not None and self._holder is not None:
            # The holder may wait forever for data. Closing its watchers wakes it with EBADF; it then releases.
            former, self.watchers = self.watchers, FdWatchers(self.watchers.fd)
            former.close()
        # Like a Condition that takes its lock back: cancels stay pending meanwhile.
        self._acquire_restore(1)
        self.closing = False

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Run a blocking operation in the pool and wait for its end, in spite of cancels: no file is left halfway."""
        if self.finalizing:
            return operation(*args)
        try:
            return self.pool.finish(operation, *args)
        finally:
            self.keep_late_cancel()

    def keep_late_cancel(self) -> None:
        """Note a cancel that came during an operation: its result must be returned, so the next one raises it."""
        self.late_cancel = self.late_cancel or bool(this_waiter().pending_errors)

    def wait_until(self, event: int) -> None:
        """Park until the file has ``event``, unless it is non-blocking. A cancel or ``close`` ends the wait."""
        watchers = self.watchers
        assert watchers is not None
        if self.finalizing or not os.get_blocking(watchers.fd):
            return
        yield_if_due()
        ready = originals.poll()
        ready.register(watchers.fd, event)
        while not ready.poll(0):
            # Read before the flag: close() first sets the flag, then replaces and closes the watchers.
            watchers = self.watchers
            if self.closing or watchers is None:
                raise closed_error()
            me = this_waiter()
            watcher = watchers.of(me)
            (watcher.wait_readable if event == system.POLLIN else watcher.wait_writable)(me)

    def read_cached(self, fd: int, buffer: Any) -> int | None:
        """Read data that is in memory. Returns: the number of bytes; None if the read must be finished in the pool.

        Parks: ``sleep``, if the caller's turn has taken its time; in spite of cancels. Raises: ParkError, because
        otherwise the page cache would decide whether a call in a coroutine fails.
        """
        if self.finalizing:
            return None
        this_waiter()
        if yield_uncancelled_if_due():
            self.keep_late_cancel()
        try:
            return cached_reads.read_cached(fd, buffer)
        except cached_reads.Refused:
            self.reads_cached = False
            return None

    def raise_late_cancel(self) -> None:
        """Raise the cancel that arrived too late for the caller's last operation."""
        self.late_cancel = False
        me = this_waiter()
        if me.pending_errors:
            raise me.pending_errors.pop(0)


def one_at_a_time(*names: str) -> Callable[[C], C]:
    """Class decorator: make these methods of a layer, and ``close``, take the lock in its ``file_state``."""

    def decorate(kind: C) -> C:
        for name in names:
            wrap = lock_written_out if name in MOSTLY_BUFFERED else lock_around
            setattr(kind, name, wrap(getattr(kind, name)))
        layer: Any = kind
        # A close must succeed in spite of a cancel, and a finalizer must not park: both need their own wrappers.
        layer.close = lock_to_close(layer.close)
        layer.__del__ = finalize_unlocked(layer.__del__)
        layer.__reduce_ex__ = refuse_pickling
        return kind

    return decorate


def lock_around(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method under the file's lock."""

    @functools.wraps(standard_method)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.file_state:
            return standard_method(self, *args, **kwargs)

    return method


def lock_written_out(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with the lock's fast path written out, and without star arguments, at a third of the cost."""

    @functools.wraps(standard_method)
    def method(self: Any, argument: Any = -1, /) -> Any:
        lock = self.file_state
        if lock.finalizing:
            return standard_method(self, argument)
        me = getcurrent()
        # No call is made between test and assignment, so no other thread can take the lock in between.
        if lock._holder is None and not lock.late_cancel: lock._holder = me  # atomic  # fmt: skip
        else:
            with lock:
                return standard_method(self, argument)
        try:
            return standard_method(self, argument)
        finally:
            if not lock._waiters: lock._holder = None  # atomic  # fmt: skip
            else:
                lock.release()

    return method


def lock_to_close(standard_close: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``close`` under a lock that is taken in spite of cancels."""

    @functools.wraps(standard_close)
    def close(self: Any) -> None:
        lock = self.file_state
        lock.acquire_to_close()
        try:
            standard_close(self)
        finally:
            lock.__exit__()

    return close


def finalize_unlocked(standard_finalizer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a finalizer that closes a dropped file without parking: finalizers run on any stack, also on the hub's."""

    def __del__(self: Any) -> None:
        lock = getattr(self, "file_state", None)
        if lock is None or is_closed(self):  # None: opening failed
            return
        warning = f"unclosed file {self!r}"
        lock.finalizing = True
        try:
            standard_finalizer(self)
        finally:
            lock.finalizing = False
        if not lock.leaves_fd_open:
            # Last, after the close: with ``-W error`` the warning is an exception.
            warnings.warn(warning, ResourceWarning, stacklevel=2, source=self)

    return __del__


def is_closed(file: Any) -> bool:
    """Return whether the file is closed already, or detached."""
    try:
        return bool(file.closed)
    except ValueError:  # detached from the layer below
        return True


def refuse_pickling(file: Any, protocol: object) -> Any:
    """Raises: TypeError, before the standard ``__reduce_ex__`` wraps the file in another object, which closes it."""
    raise TypeError(f"cannot pickle {type(file).__name__!r} instances")
