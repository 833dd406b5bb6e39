"""The standard ``threading`` on dhagas: ``import dhaga.threading as threading`` is the whole swap.

Thread, Timer, local and the questions about who runs; the primitives come from ``locks.py``, ``semaphores.py`` and
``events.py``. What concerns OS threads alone is the standard module's own.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from threading import (
    TIMEOUT_MAX,
    BrokenBarrierError,
    ExceptHookArgs,
    ThreadError,
    getprofile,
    gettrace,
    setprofile,
    settrace,
    stack_size,
)
from typing import Any

from greenlet import getcurrent

from .events import Barrier, Event
from .kernel import originals
from .kernel.callers import scheduler_here
from .kernel.microthread import Dhaga
from .local import local
from .locks import Condition, Lock, RLock
from .oldnames import OldNames
from .semaphores import BoundedSemaphore, Semaphore

__all__ = [
    "TIMEOUT_MAX",
    "Barrier",
    "BoundedSemaphore",
    "BrokenBarrierError",
    "Condition",
    "Event",
    "ExceptHookArgs",
    "Lock",
    "RLock",
    "Semaphore",
    "Thread",
    "ThreadError",
    "Timer",
    "active_count",
    "current_thread",
    "enumerate",
    "excepthook",
    "get_ident",
    "get_native_id",
    "getprofile",
    "gettrace",
    "local",
    "main_thread",
    "setprofile",
    "settrace",
    "stack_size",
]

if sys.version_info >= (3, 12):
    from threading import setprofile_all_threads, settrace_all_threads

    __all__ += ["setprofile_all_threads", "settrace_all_threads"]

__excepthook__ = threading.__excepthook__
excepthook = __excepthook__
"""Called with ``ExceptHookArgs`` when ``Thread.run`` raises; may be replaced by assignment, as may the standard one."""


def __getattr__(name: str) -> Any:
    """Say why a name of the standard module is missing here."""
    if hasattr(threading, name):
        raise AttributeError(
            f"dhaga.threading has no {name!r}, which is about OS threads alone: take it from the standard module, "
            "import threading, where they are meant"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Active(dict[int, "Thread"]):
    """Threads that run now, by ident; what ``threading._active`` is under the patch."""

    def __delitem__(self, ident: int) -> None:
        """Take one out, if it has not gone by itself, as the standard's dummies never do."""
        self.pop(ident, None)


_active = Active()


class Thread(OldNames):
    """A dhaga with the contract of ``threading.Thread``: a target or an overridden ``run``, started by ``start()``.

    It runs on the scheduler of whoever starts it. Source: ``threading.Thread``; ``native_id`` is that of the OS thread,
    which many share; ``context`` as in 3.14, by default a copy of the starter's context variables.
    """

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
        self._target = target
        self._args = args
        self._kwargs = kwargs or {}
        self._daemonic = current_thread().daemon if daemon is None else daemon
        self._context = context
        self._dhaga: Dhaga | None = None
        self._native_id: int | None = None
        dangling.add(self)

    def __repr__(self) -> str:
        state = "started" if self.is_alive() else "stopped" if self.ident else "initial"
        number = f" {self.ident}" if self.ident else ""
        return f"<{type(self).__name__}({self.name}, {state}{' daemon' if self.daemon else ''}{number})>"

    def start(self) -> None:
        """Start the thread's activity. Raises: RuntimeError the second time, or if ``__init__`` was not called."""
        self._check_initialised()
        if self._dhaga is not None:
            raise RuntimeError("threads can only be started once")
        scheduler = scheduler_here()
        self._dhaga = Dhaga(scheduler, self._bootstrap, (), None, self._name, self._daemonic, self._context)
        self._native_id = threading.get_native_id()
        _active[self._dhaga.ident] = self
        self._dhaga.keep(actives)  # one that is cancelled before its first turn never comes to _bootstrap
        scheduler.admit(self._dhaga)
        self._tell_started()

    def _check_initialised(self) -> None:
        if "_dhaga" not in self.__dict__:
            raise RuntimeError("Thread.__init__() was not called before this")

    def _bootstrap(self) -> None:
        try:
            self.run()
        except SystemExit:
            pass  # as the standard says: it ends the thread, silently
        except Exception as error:
            tell_excepthook(self, error)
        finally:
            _active.pop(self._dhaga.ident, None)  # type: ignore[union-attr]

    def run(self) -> None:
        """Call the target; subclasses override it."""
        try:
            if self._target is not None:
                self._target(*self._args, **self._kwargs)
        finally:
            del self._target, self._args, self._kwargs  # they may refer to this thread

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended.

        Parks: while it lives (``join``). Raises: RuntimeError on itself, or before the start.
        """
        self._check_initialised()
        if self._dhaga is None:
            raise RuntimeError("cannot join thread before it is started")
        if self._dhaga is getcurrent():
            raise RuntimeError("cannot join current thread")
        if not self._dhaga.done:  # in a forked child it is, as the standard has it
            self._dhaga.join(timeout)

    def cancel(self, reason: object = None) -> bool:
        """Have ``Cancelled(reason)`` raised in the thread at its park. More than the standard Thread can."""
        return self._dhaga is not None and self._dhaga.cancel(reason)

    @property
    def name(self) -> str:
        """The name, for people alone; may be set."""
        self._check_initialised()
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._check_initialised()
        self._name = str(name)
        if self._dhaga is not None:
            self._dhaga.name = self._name

    @property
    def ident(self) -> int | None:
        """A number that no other dhaga of this process has; None before the start."""
        self._check_initialised()
        return self._dhaga.ident if self._dhaga is not None else None

    @property
    def native_id(self) -> int | None:
        """The kernel's number of the OS thread that runs it."""
        self._check_initialised()
        return self._native_id

    def is_alive(self) -> bool:
        """Tell whether the thread was started and has not ended."""
        self._check_initialised()
        return self._dhaga is not None and not self._dhaga.done

    @property
    def daemon(self) -> bool:
        """Whether the interpreter's exit cancels it instead of waiting for it; may be set before the start."""
        self._check_initialised()
        return self._daemonic

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        self._check_initialised()
        if self._dhaga is not None:
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemonic = daemonic


dangling: weakref.WeakSet[Thread] = weakref.WeakSet()


def new_name(target: object) -> str:
    """Return a name with a number that no other thread has, dhaga or not."""
    name: str = threading._newname("Thread-%d")  # type: ignore[attr-defined]
    return name if target is None or not hasattr(target, "__name__") else f"{name} ({target.__name__})"


def tell_excepthook(thread: Thread, error: BaseException) -> None:
    args = ExceptHookArgs((type(error), error, error.__traceback__, thread))
    hook = threading.excepthook if excepthook is __excepthook__ else excepthook
    try:
        hook(args)
    except Exception:
        if sys.stderr is not None:
            print("Exception in threading.excepthook:", file=sys.stderr, flush=True)
        sys.excepthook(*sys.exc_info())


class Timer(Thread):
    """Call a function after a while, unless cancelled. Source: ``threading.Timer``."""

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
        self.args = args if args is not None else []
        self.kwargs = kwargs if kwargs is not None else {}
        self.finished = Event()

    def cancel(self, reason: object = None) -> bool:
        """Stop the timer if it has not called its function yet."""
        self.finished.set()
        return True

    def run(self) -> None:
        if not self.finished.wait(self.interval):
            self.function(*self.args, **self.kwargs)
        self.finished.set()


class Outsider(Thread):
    """What ``current_thread()`` says of code that no Thread of ours runs; the names of its kinds are the standard's."""

    def __init__(self, name: str, ident: int, is_alive: Callable[[], bool], daemon: bool) -> None:
        self._name = name
        self._daemonic = daemon
        self._number = ident
        self._is_alive = is_alive
        self._native_id = threading.get_native_id()
        self._dhaga = None
        dangling.add(self)

    @property
    def ident(self) -> int:
        return self._number

    def is_alive(self) -> bool:
        return self._is_alive()

    def join(self, timeout: float | None = None) -> None:
        raise RuntimeError(f"cannot join {self.name}: it was not started as a Thread of dhaga.threading")


class _MainThread(Outsider):
    """The process's main code."""

    def __init__(self) -> None:
        thread = originals.main_thread()
        super().__init__(thread.name, thread.ident or 0, thread.is_alive, thread.daemon)


class _DummyThread(Outsider):
    """A dhaga that was spawned, or an OS thread that Python has not started. Source: the standard's of 3.13, which go
    with their threads.
    """


OfUnknown: type = threading._DummyThread
the_main_thread: Thread = _MainThread()
_active[the_main_thread.ident or 0] = the_main_thread
actives = weakref.ref(_active)


class Here(originals.local):
    """What stands for an OS thread's own code."""

    thread: Thread | None = None


here = Here()


def current_thread() -> Thread:
    """Return the Thread that runs; for code that none runs an object with the same questions answered."""
    me = getcurrent()
    if isinstance(me, Dhaga):
        return _active.get(me.ident) or dummy_of(me)
    if here.thread is None:
        here.thread = _active.get(originals.get_ident()) or outsider_of(originals.current_thread())
    return here.thread


def dummy_of(dhaga: Dhaga) -> Thread:
    dummy = _active[dhaga.ident] = _DummyThread(dhaga.name, dhaga.ident, dhaga.is_alive, dhaga.daemon)
    dhaga.keep(actives)
    return dummy


def outsider_of(thread: threading.Thread) -> Outsider:
    kind = _DummyThread if isinstance(thread, OfUnknown) else Outsider
    return kind(thread.name, thread.ident or 0, thread.is_alive, thread.daemon)


def main_thread() -> Thread:
    """Return what stands for the process's main code; in a forked child the Thread in which the fork was made."""
    return the_main_thread


def enumerate() -> list[Thread]:
    """Return the Threads that run now, the main thread among them, and the dhagas that have asked who they are."""
    return list(_active.values())


def active_count() -> int:
    """Return how many Threads run now."""
    return len(_active)


def currentThread() -> Thread:
    """Return the current thread. Source: deprecated, in threading as well."""
    warnings.warn("currentThread() is deprecated, use current_thread() instead", DeprecationWarning, stacklevel=2)
    return current_thread()


def activeCount() -> int:
    """Return how many Threads run now. Source: deprecated, in threading as well."""
    warnings.warn("activeCount() is deprecated, use active_count() instead", DeprecationWarning, stacklevel=2)
    return active_count()


def get_ident() -> int:
    """Return the number of the dhaga that runs, or of the OS thread."""
    me = getcurrent()
    return me.ident if isinstance(me, Dhaga) else originals.get_ident()


get_native_id = threading.get_native_id


def after_fork_in_child() -> None:
    """Let the thread in which the fork was made be the main thread of the child, and the only one."""
    global the_main_thread
    me = current_thread()
    the_main_thread = me
    _active.clear()
    _active[me.ident or 0] = me


os.register_at_fork(after_in_child=after_fork_in_child)
