"""FileState: the state and lock that all layers of one file share.

The compiled layers of ``io`` (raw file, buffer, text) allow only one operation at a time on a file. If a caller were
parked inside a layer, a second caller in the same OS thread would get ``RuntimeError: reentrant call`` or a torn line.
So each operation first acquires the file's ``FileState``, an RLock. The file classes are in ``offloaded_file.py``.

Besides the lock's holder, a FileState has these attributes. ``late_cancel``: a cancel arrived during an operation that
could not be undone; the next operation raises the cancel. ``closing``: a caller of ``close`` waits, so a dhaga that
waits for data gets EBADF. ``finalizing``: a finalizer is closing the file, without locking or parking. ``watchers``:
set only for pipes, sockets and terminals, whose operations first wait for readiness.

Rejected: changing the file's ``__class__`` while a caller is parked in an operation, instead of holding a lock. Reading
a line would take a third of the time, but the file could not be handed over to the next caller.
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
from .._kernel.run.turn_budget import yield_if_due
from .._kernel.wait.current import this_waiter
from .._sync.lock import RLock
from .._workers.offload import OffloadPool

C = TypeVar("C", bound=type)

MOSTLY_BUFFERED = {"read", "readline", "write"}
"""Operations that usually need only the buffer; they have at most one argument."""


class FileState(RLock):
    """The state and lock of one file. ``finish`` runs the holder's blocking operations in the pool."""

    __slots__ = ("closing", "finalizing", "late_cancel", "leaves_fd_open", "pool", "reads_cached", "top", "watchers")

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__()
        self._count = 1  # preset, because the inlined fast path acquires the lock by setting only ``_holder``
        self.pool: OffloadPool = pool
        self.late_cancel: bool = False  # a cancel came too late for an operation; the next operation raises it
        self.watchers: FdWatchers | None = None  # the watchers of a pipe, socket or terminal; None for a file on disk
        self.reads_cached: bool = False  # whether cached data is read without a thread
        self.closing: bool = False  # a caller of ``close`` waits for the lock
        self.leaves_fd_open: bool = False  # the file was opened with ``closefd=False``
        self.finalizing: bool = False  # a finalizer, which must not park, is closing the file
        self.top: type | None = None  # the class of the uppermost layer

    def _holders(self) -> list[object]:
        return [] if self._holder is None else [self._holder]

    def __repr__(self) -> str:
        return super().__repr__().replace("RLock", "FileState", 1)

    def set_top(self, layer: Any) -> None:
        """Make a layer of this file the uppermost one."""
        layer.file_state = self
        self.top = type(layer)

    def __enter__(self) -> bool:
        # A finalizer needs no lock, since it has the only reference to the file. At interpreter exit, a finalizer
        # cannot even acquire the lock, because greenlet cannot identify the caller.
        if self.finalizing:
            return True
        # Raise only at the outermost entry, because a nested entry is in the middle of an operation.
        if self.late_cancel and not self._is_owned():
            self.raise_late_cancel()
        return super().__enter__()

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        if not self.finalizing:
            self.release()

    def acquire_to_close(self) -> None:
        """Acquire the lock for ``close``, in spite of cancels. A holder that waits for data gets an OSError."""
        if self.finalizing:
            return
        if self._is_owned():
            self._count += 1
            return
        self.closing = True
        if self.watchers is not None and self._holder is not None:
            # The holder may wait forever for data. Closing the file's watchers wakes the holder with EBADF. The holder
            # then releases the lock.
            former, self.watchers = self.watchers, FdWatchers(self.watchers.fd)
            former.close()
        # Cancels stay pending meanwhile, as when a Condition acquires its lock again.
        self._acquire_restore(1)
        self.closing = False

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Run a blocking operation in the pool to its end. A cancel does not interrupt the operation or the wait."""
        if self.finalizing:
            return operation(*args)
        try:
            return self.pool.finish(operation, *args)
        finally:
            self.keep_late_cancel()

    def keep_late_cancel(self) -> None:
        """Record a cancel that came during an operation; the next operation raises the cancel."""
        self.late_cancel = self.late_cancel or bool(this_waiter().pending_errors)

    def wait_until(self, event: int) -> None:
        """Park until the file has ``event``, unless the fd is non-blocking. A cancel or ``close`` ends the wait."""
        watchers = self.watchers
        assert watchers is not None
        if self.finalizing or not os.get_blocking(watchers.fd):
            return
        yield_if_due()
        ready = originals.poll()
        ready.register(watchers.fd, event)
        while not ready.poll(0):
            # Read the watchers before the flag: close() first sets the flag, then replaces and closes the watchers.
            watchers = self.watchers
            if self.closing or watchers is None:
                raise closed_error()
            me = this_waiter()
            watcher = watchers.of(me)
            (watcher.wait_readable if event == system.POLLIN else watcher.wait_writable)(me)

    def raise_late_cancel(self) -> None:
        """Raise the cancel that came too late for the last operation."""
        self.late_cancel = False
        me = this_waiter()
        if me.pending_errors:
            raise me.pending_errors.pop(0)


def one_at_a_time(*names: str) -> Callable[[C], C]:
    """Return a class decorator that wraps the named methods of a layer, and ``close``, in the lock ``file_state``."""

    def decorate(kind: C) -> C:
        for name in names:
            wrap = lock_written_out if name in MOSTLY_BUFFERED else lock_around
            setattr(kind, name, wrap(getattr(kind, name)))
        layer: Any = kind
        # These methods need special wrappers: a close must succeed in spite of a cancel, a finalizer must not park, and
        # pickling must fail.
        layer.close = lock_to_close(layer.close)
        if hasattr(kind, "detach"):
            layer.detach = lock_to_detach(layer.detach)
        layer.__del__ = finalize_unlocked(layer.__del__)
        layer.__reduce_ex__ = refuse_pickling
        return kind

    return decorate


def lock_around(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that acquires the file's lock for each call."""

    @functools.wraps(standard_method)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.file_state:
            return standard_method(self, *args, **kwargs)

    return method


def lock_written_out(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method like ``lock_around``. Its inlined locking, without star arguments, takes a third of the time."""

    @functools.wraps(standard_method)
    def method(self: Any, argument: Any = -1, /) -> Any:
        lock = self.file_state
        if lock.finalizing:
            return standard_method(self, argument)
        me = getcurrent()
        # Check and assignment are one atomic line, so no other thread can take the lock in between.
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
    """Return a ``close`` that acquires the file's lock in spite of cancels."""

    @functools.wraps(standard_close)
    def close(self: Any) -> None:
        lock = self.file_state
        lock.acquire_to_close()
        try:
            standard_close(self)
        finally:
            lock.__exit__()

    return close


def lock_to_detach(standard_detach: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``detach`` that acquires the file's lock, and records the layer below as the new uppermost layer."""

    @functools.wraps(standard_detach)
    def detach(self: Any) -> Any:
        with self.file_state:
            below = standard_detach(self)
            self.file_state.set_top(below)
            return below

    return detach


def finalize_unlocked(standard_finalizer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a finalizer that closes a dropped file without parking, because finalizers also run on the hub.

    A garbage collection calls the finalizers of the layers in any order. Only the uppermost layer's finalizer closes
    the file. The standard files lose buffered data if a lower layer's finalizer runs first.
    """

    def __del__(self: Any) -> None:
        lock = getattr(self, "file_state", None)
        if lock is None or lock.top is not type(self) or is_closed(self):  # never opened, or already closed
            return
        warning = f"unclosed file {self!r}"
        lock.finalizing = True
        try:
            standard_finalizer(self)
        finally:
            lock.finalizing = False
        if not lock.leaves_fd_open:
            # Warn only after the close, because with ``-W error`` the warning is an exception.
            warnings.warn(warning, ResourceWarning, stacklevel=2, source=self)

    return __del__


def is_closed(file: Any) -> bool:
    """Return whether the file is closed or detached."""
    try:
        return bool(file.closed)
    except ValueError:  # the file is detached from the layer below
        return True


def refuse_pickling(file: Any, protocol: object) -> Any:
    """Raise TypeError. The standard method would wrap the file in another object, which would close the file."""
    raise TypeError(f"cannot pickle {type(file).__name__!r} instances")
