"""The standard ``threading`` for dhagas. To use it, write ``import dhaga.threading as threading``.

This module defines Thread, Timer, and functions such as ``current_thread``. The primitives, a Thread's attributes and
the dict of running threads are in ``_sync/``. For a name that concerns only OS threads, ``__getattr__`` raises an error
that refers to the standard module.

A Thread is not a Dhaga: ``start`` creates its dhaga. Until the dhaga ends, ``_active`` contains the Thread under
the dhaga's ident. For code outside our Threads, ``current_thread`` returns a stand-in: ``_MainThread`` for main code,
``_DummyThread`` for a spawned dhaga or an OS thread that Python has not started, ForeignThread for any other OS thread.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context, copy_context
from threading import (
    TIMEOUT_MAX,
    BrokenBarrierError,
    ExceptHookArgs,
    ThreadError,
    get_native_id,
    getprofile,
    gettrace,
    setprofile,
    settrace,
    stack_size,
)
from typing import Any

from greenlet import getcurrent

from ._kernel import hooks, originals
from ._kernel.faces.arguments import check_wait_timeout
from ._kernel.faces.stdlib_face import builtin_function
from ._kernel.fast.compiled import compiled
from ._kernel.process.current_scheduler import current_scheduler
from ._kernel.process.main_end import main_end
from ._kernel.process.thread_join import join_thread
from ._kernel.run.call_outs import calls_out
from ._kernel.run.idents import ident_of
from ._kernel.run.microthread import Dhaga
from ._kernel.run.tracing import begin_thread_functions, drop_of_thread, profiled, set_of_thread, traced
from ._kernel.wait.cancellation import NoPark, raise_interrupt
from ._kernel.wait.current import parking_waiter
from ._kernel.wait.wait_queue import WaitQueue
from ._sync.active_threads import active as _active
from ._sync.barrier import Barrier
from ._sync.condition import Condition
from ._sync.event import Event
from ._sync.iterators import concurrent_tee, serialize_iterator, synchronized_iterator
from ._sync.local import local
from ._sync.lock import Lock, RLock
from ._sync.semaphore import BoundedSemaphore, Semaphore
from ._sync.thread_attributes import new_name
from ._sync.thread_legacy import LegacyThreadNames

__all__ = [
    "TIMEOUT_MAX", "Barrier", "BoundedSemaphore", "BrokenBarrierError", "Condition", "Event", "ExceptHookArgs", "Lock",
    "RLock", "Semaphore", "Thread", "ThreadError", "Timer", "active_count", "concurrent_tee", "current_thread",
    "enumerate", "excepthook", "get_ident", "get_native_id", "getprofile", "gettrace", "local", "main_thread",
    "serialize_iterator", "setprofile", "settrace", "stack_size", "synchronized_iterator",
]  # fmt: skip

if sys.version_info >= (3, 12):
    from threading import setprofile_all_threads as standard_setprofile_all_threads
    from threading import settrace_all_threads as standard_settrace_all_threads

    def settrace_all_threads(func: Any) -> None:
        """Set the trace function of all running and future threads."""
        standard_settrace_all_threads(func)
        traced.set(func)

    def setprofile_all_threads(func: Any) -> None:
        """Set the profile function of all running and future threads."""
        standard_setprofile_all_threads(func)
        profiled.set(func)

    __all__ += ["setprofile_all_threads", "settrace_all_threads"]

__excepthook__ = threading.__excepthook__
excepthook = __excepthook__
"""The function called with ``ExceptHookArgs`` when ``Thread.run`` raises. Set it here or in the standard module."""


def __getattr__(name: str) -> Any:
    """Raise an AttributeError that says why a name of the standard module is missing here."""
    if hasattr(threading, name):
        raise AttributeError(
            f"dhaga.threading has no {name!r}, which concerns only OS threads:\nuse the standard module for "
            "these, import threading"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Thread(LegacyThreadNames):
    """A thread that runs in a dhaga, on its starter's scheduler. Source: ``threading.Thread``.

    ``native_id`` is the number of the OS thread, which many Threads share. The parameter ``context`` is from Python
    3.14. Its default is an empty context; with ``-X thread_inherit_context``, it is a copy of the starter's context.
    """

    _starter_: WaitQueue | None = None

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
        context: Context | None = None,
    ) -> None:
        if group is not None:
            raise ValueError("group argument must be None: it is reserved")
        self._name = str(name) if name else new_name(target)
        self._ident: int | None = None
        self._target = target
        self._args = args
        self._kwargs = kwargs or {}
        self._daemonic = current_thread().daemon if daemon is None else daemon
        self._context = context
        self._dhaga: Dhaga | None = None
        self._native_id: int | None = None

    def start(self) -> None:
        """Start the thread's activity.

        Parks: until the thread has begun (``thread.start``), if the caller can park. Raises: RuntimeError on a second
        call, or if ``__init__`` was not called.
        """
        self._check_initialised_()
        if self._dhaga is not None:
            raise RuntimeError("threads can only be started once")
        scheduler = current_scheduler()
        context = new_context() if self._context is None else self._context
        self._dhaga = Dhaga(scheduler, self._bootstrap, (), None, self._name, self._daemonic, context)
        self._native_id = threading.get_native_id()
        self._ident = ident_of(self._dhaga)
        begin_thread_functions(scheduler)
        # Add the Thread here, because a dhaga that is cancelled before it first runs never calls _bootstrap().
        _active.add(self._dhaga, self)
        try:
            scheduler.admit(self._dhaga)
        except BaseException:
            # As in the standard, the thread counts as not started, and may be started again.
            _active.pop(self._dhaga.ident, None)
            self._dhaga = self._ident = None
            raise
        self._tell_started_()
        self._wait_until_begun_(self._dhaga)

    def _wait_until_begun_(self, dhaga: Dhaga) -> None:
        """Park until the thread has begun, because some programs stop a thread right after its start.

        Parks: ``thread.start``; a cancel stays pending, because the thread is already starting. Does not park in
        ``no_park()``, in a coroutine, or in a finalizer that interrupts a park of the caller. Raises: a signal
        handler's error.
        """
        me = parking_waiter()
        if me is not None and not me.parked and not any(isinstance(cause, NoPark) for cause in me.pending_errors):
            self._starter_ = WaitQueue(self, "thread.start")
            me.park_on(self._starter_)
            dhaga._joiners.append(me.parked)  # wakes the caller if the thread is cancelled before it begins
            me.park_until_woken()
            raise_interrupt(me)

    @calls_out
    def _bootstrap(self) -> None:
        if self._starter_ is not None:
            self._starter_.wake_all()
        self._bootstrap_inner()

    @calls_out
    def _bootstrap_inner(self) -> None:
        """Call ``run`` while the module's trace and profile functions are set. Some programs replace this method."""
        has_functions = set_of_thread()
        try:
            self.run()
        except SystemExit as error:
            call_excepthook(self, error)  # the standard hook ignores SystemExit, but a program's hook may handle it
        except BaseException as error:
            if not self._dhaga.is_own_error(error):  # type: ignore[union-attr]
                raise
            call_excepthook(self, error)
        finally:
            if has_functions:
                drop_of_thread()
            self._delete()

    def _delete(self) -> None:
        """Remove the thread from the running threads."""
        _active.pop(self._dhaga.ident, None)  # type: ignore[union-attr]

    @calls_out
    def run(self) -> None:
        """Call the target. Subclasses may override this method."""
        try:
            if self._target is not None:
                self._target(*self._args, **self._kwargs)
        finally:
            del self._target, self._args, self._kwargs  # these may refer to this thread

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended.

        Parks: ``join``. Raises: RuntimeError if the caller is this thread, before the start, or while Python 3.14 ends.
        """
        self._check_initialised_()
        if self._dhaga is None:
            raise RuntimeError("cannot join thread before it is started")
        if self._dhaga is getcurrent():
            raise RuntimeError("cannot join current thread")
        join_thread(self._dhaga, timeout)

    def cancel(self, reason: object = None) -> bool:
        """Raise ``Cancelled(reason)`` in the thread at its current or next park. Source: the standard Thread has no
        such method.
        """
        return self._dhaga is not None and self._dhaga.cancel(reason)


new_context: Callable[[], Context] = copy_context if getattr(sys.flags, "thread_inherit_context", False) else Context
"""Return the default context of a new Thread: the same as for a standard Thread on this Python version."""


def call_excepthook(thread: Thread, error: BaseException) -> None:
    args = ExceptHookArgs((type(error), error, error.__traceback__, thread))
    hook = threading.excepthook if excepthook is __excepthook__ else excepthook
    try:
        hook(args)
    except Exception:
        if sys.stderr is not None:
            print("Exception in threading.excepthook:", file=sys.stderr, flush=True)
        sys.excepthook(*sys.exc_info())


class Timer(Thread):
    """A thread that calls a function after ``interval`` seconds. Source: ``threading.Timer``."""

    def __init__(
        self,
        interval: float,
        function: Callable[..., object],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.interval = interval
        self.function = function
        self.args: Iterable[Any] = args if args is not None else []
        self.kwargs: Mapping[str, Any] = kwargs if kwargs is not None else {}
        self.finished: Event = Event()

    def cancel(self, reason: object = None) -> bool:
        """Stop the timer, unless the timer has already called its function."""
        self.finished.set()
        return True

    @calls_out
    def run(self) -> None:
        if not self.finished.wait(self.interval):
            self.function(*self.args, **self.kwargs)
        self.finished.set()


class ForeignThread(Thread):
    """A stand-in for code outside our Threads. Its subclasses have the names of the standard classes."""

    def __init__(self, name: str, ident: int, is_alive: Callable[[], bool], daemon: bool) -> None:
        self._name = name
        self._daemonic = daemon
        self._ident = ident
        self._is_alive = is_alive
        self._native_id = threading.get_native_id()
        self._dhaga = None

    def is_alive(self) -> bool:
        return self._is_alive()

    def join(self, timeout: float | None = None) -> None:
        raise RuntimeError(f"cannot join {self.name}: it was not started as a Thread of dhaga.threading")


class _MainThread(ForeignThread):
    """A stand-in for the main code of the process, or in a forked child for the code that called fork (``ident``)."""

    def __init__(self, ident: int | None = None) -> None:
        thread = originals.main_thread()
        # Never a daemon, even after a fork in a daemon, because new threads inherit the flag from their creator.
        super().__init__(thread.name, ident or thread.ident or 0, main_code_is_alive, daemon=False)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the main code. After this end, the exit joins threads and calls exit handlers.

        Parks: ``join``. Raises: RuntimeError in the main code.
        """
        if current_thread() is self:
            raise RuntimeError("cannot join current thread")
        if timeout is not None:
            check_wait_timeout(timeout)
        main_end.wait(timeout if timeout is None or timeout >= 0 else 0)


def main_code_is_alive() -> bool:
    """Return whether the main code is still running. At exit, the main code ends before threads are joined."""
    return not main_end.reached


class _DummyThread(ForeignThread):
    """A stand-in for a spawned dhaga, or for an OS thread that Python has not started.

    Source: Python 3.13, where the end of a thread drops its stand-in.
    """


StandardDummyThread: type = threading._DummyThread
the_main_thread: Thread = _MainThread()
_active[the_main_thread.ident or 0] = the_main_thread


class CurrentThread(originals.local):
    """The Thread object for code outside dhagas, separate for each OS thread and created on first use."""

    thread: Thread | None = None


this_thread: CurrentThread = CurrentThread()


def current_thread() -> Thread:
    """Return the running Thread, or for other code a stand-in with the same attributes."""
    me = getcurrent()
    if isinstance(me, Dhaga):
        return _active.get(ident_of(me)) or dummy_thread_of(me)
    if this_thread.thread is None:
        this_thread.thread = _active.get(originals.get_ident()) or foreign_thread_of(originals.current_thread())
    return this_thread.thread


def dummy_thread_of(dhaga: Dhaga) -> Thread:
    # A subclass of Dhaga may create its own stand-in, as the classes of dhaga.compat do.
    make = getattr(dhaga, "_stand_in", None)
    dummy: Thread
    daemon = dhaga.daemon and not dhaga.makes_calls
    dummy = _DummyThread(dhaga.name, ident_of(dhaga), dhaga.is_alive, daemon) if make is None else make()
    _active.add(dhaga, dummy)
    return dummy


def foreign_thread_of(thread: threading.Thread) -> ForeignThread:
    kind = _DummyThread if isinstance(thread, StandardDummyThread) else ForeignThread
    return kind(thread.name, thread.ident or 0, thread.is_alive, thread.daemon)


def main_thread() -> Thread:
    """Return the Thread of the main code, or in a forked child the Thread that called fork."""
    return the_main_thread


def enumerate() -> list[Thread]:
    """Return the running Threads, including the main thread and stand-ins of dhagas that called ``current_thread``."""
    return list(_active.values())


def active_count() -> int:
    """Return the number of running Threads, which is the length of ``enumerate()``."""
    return len(_active)


def currentThread() -> Thread:
    """Return the current thread. Source: ``threading``, which also deprecates this name."""
    warnings.warn("currentThread() is deprecated, use current_thread() instead", DeprecationWarning, stacklevel=2)
    return current_thread()


def activeCount() -> int:
    """Return the number of running Threads. Source: ``threading``, which also deprecates this name."""
    warnings.warn("activeCount() is deprecated, use active_count() instead", DeprecationWarning, stacklevel=2)
    return active_count()


@builtin_function
@compiled
def get_ident() -> int:
    """Return the ident of the running dhaga, or outside dhagas the ident of the OS thread."""
    me = getcurrent()
    return ident_of(me) if isinstance(me, Dhaga) else originals.get_ident()


def after_fork_in_child() -> None:
    """Make the caller of fork the main thread and only thread of the child.

    Source: ``threading``. If a Thread has called fork, it becomes the main thread; any other caller gets a new
    ``_MainThread``.
    """
    global the_main_thread
    me = current_thread()
    if isinstance(me, _DummyThread):
        me = _MainThread(me.ident)
        if not isinstance(getcurrent(), Dhaga):
            this_thread.thread = me
    the_main_thread = me
    _active.clear()
    _active[me.ident or 0] = me


def is_thread(dhaga: Dhaga) -> bool:
    """Return whether a dhaga runs a Thread; False if its Thread is only a stand-in."""
    thread = _active.get(ident_of(dhaga))
    return thread is not None and thread._dhaga is dhaga


hooks.in_forked_child.append(after_fork_in_child)
hooks.left_at_exit.append(is_thread)
