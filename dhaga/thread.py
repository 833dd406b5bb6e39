"""The standard ``_thread`` for dhagas, for programs that use ``_thread``, the base of ``threading``, directly.

All names that are not defined here are the standard module's own.
"""

from __future__ import annotations

import _thread as standard
import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any, cast

from greenlet import getcurrent

from ._kernel import hooks
from ._kernel.faces.arguments import check_wait_timeout
from ._kernel.faces.stdlib_face import builtin_function, fall_back_to, refuse_copy
from ._kernel.process import preemption_watcher
from ._kernel.process.current_scheduler import current_scheduler
from ._kernel.process.thread_join import join_thread
from ._kernel.run.call_outs import calls_out
from ._kernel.run.idents import ident_of
from ._kernel.run.microthread import Dhaga
from ._sync.active_threads import active
from ._sync.local import local as _local
from ._sync.lock import Lock, RLock
from .threading import get_ident

__all__ = ["LockType", "RLock", "_local", "allocate", "allocate_lock", "get_ident", "start_new", "start_new_thread"]

LockType = lock = allocate_lock = allocate = Lock

UnraisableHookArgs: Any = next(kind for kind in tuple.__subclasses__() if kind.__name__ == "UnraisableHookArgs")
"""The type of the argument of ``sys.unraisablehook``, which has no public name in ``sys``."""

running: dict[int, Dhaga] = {}
"""The dhagas that this module has started and that have not ended, by ident."""

standard_count: Callable[[], int] = standard._count

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


@builtin_function
def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    """Run ``function(*args, **kwargs)`` in a dhaga with an empty context. Returns: the dhaga's ident.

    Source: ``_thread.start_new_thread``.
    """
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError("optional 3rd arg must be a dictionary")
    return ident_of(start(function, args, kwargs or {}))


start_new = start_new_thread


def start(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any], daemon: bool = True) -> Dhaga:
    @calls_out
    def run() -> None:
        try:
            function(*args, **kwargs)
        except SystemExit:
            pass  # SystemExit ends only this thread
        except BaseException as error:
            if not dhaga.is_own_error(error):
                raise
            call_unraisablehook(function, error)

    dhaga = current_scheduler().spawn(run, daemon=daemon, context=Context())
    running[dhaga.ident] = dhaga
    dhaga.drop_at_end(lambda: running)
    return dhaga


def call_unraisablehook(function: Callable[..., object], error: BaseException) -> None:
    """Report to ``sys.unraisablehook`` an error that ended a thread, with the message of this Python version."""
    message, culprit = "Exception ignored in thread started by", cast(Any, function)
    if sys.version_info >= (3, 13):
        message, culprit = f"{message} {function!r}", None
    sys.unraisablehook(UnraisableHookArgs((type(error), error, error.__traceback__, message, culprit)))


@builtin_function
def _count() -> int:
    """Return the number of running threads that Python has started, including threads that run in dhagas."""
    # In a forked child, the parent's dhagas are marked as ended.
    alive = [dhaga for dhaga in running.values() if not dhaga.has_ended]
    others = standard_count() - preemption_watcher.count_threads()
    return others + len(alive) + sum(thread._dhaga is not None for thread in active.values())


class _ThreadHandle:
    """The handle of a thread that ``start_joinable_thread`` has started. Source: Python 3.13."""

    __slots__ = ("dhaga",)

    __getstate__: Any = refuse_copy

    def __init__(self) -> None:
        self.dhaga: Dhaga | None = None

    def __repr__(self) -> str:
        return f"<_ThreadHandle object: ident={self.ident}>"

    @property
    def ident(self) -> int:
        """The ident of the thread; 0 before its start."""
        return 0 if self.dhaga is None else ident_of(self.dhaga)

    def _started_dhaga(self) -> Dhaga:
        if self.dhaga is None:
            raise RuntimeError("thread not started")
        return self.dhaga

    def is_done(self) -> bool:
        """Return whether the thread has ended."""
        return self.dhaga is not None and self.dhaga.has_ended

    def join(self, timeout: float | None = None, /) -> None:
        """Wait until the thread has ended; without a limit if the timeout is negative.

        Parks: ``join``. Raises: RuntimeError if the caller is this thread, before the start, or while Python 3.14 ends.
        """
        if timeout is not None:
            check_wait_timeout(abs(timeout))  # the standard refuses large negative values too
        dhaga = self._started_dhaga()
        if dhaga is getcurrent():
            raise RuntimeError("Cannot join current thread")
        join_thread(dhaga, timeout if timeout is None or timeout >= 0 else None)

    def _set_done(self) -> None:
        self._started_dhaga()


@builtin_function
def start_joinable_thread(
    function: Callable[[], object], handle: _ThreadHandle | None = None, daemon: bool = True
) -> _ThreadHandle:
    """Run ``function()`` in a dhaga. Returns: a handle for ``join``. Source: Python 3.13, only for ``threading``."""
    if not callable(function):
        raise TypeError("thread function must be callable")
    if handle is None:
        handle = _ThreadHandle()
    if not isinstance(handle, _ThreadHandle):
        raise TypeError("'handle' must be a _ThreadHandle")
    if handle.dhaga is not None:
        raise RuntimeError("thread already started")
    handle.dhaga = start(function, (), {}, daemon)
    return handle


hooks.left_at_exit.append(lambda dhaga: dhaga.ident in running)
