"""The standard ``_thread`` on dhagas: what lies below ``threading``, for programs that use it directly.

Whatever is not defined here is the standard module's own.
"""

from __future__ import annotations

import _thread as standard
import sys
from collections.abc import Callable
from typing import Any, cast

from .kernel.callers import scheduler_here
from .kernel.microthread import Dhaga
from .local import local as _local
from .locks import Lock, RLock
from .threading import _active, get_ident

__all__ = ["LockType", "RLock", "_local", "allocate", "allocate_lock", "get_ident", "start_new", "start_new_thread"]

LockType = lock = allocate_lock = allocate = Lock

UnraisableHookArgs: Any = next(kind for kind in tuple.__subclasses__() if kind.__name__ == "UnraisableHookArgs")
"""What ``sys.unraisablehook`` gets; ``sys`` has no name for it."""

running: dict[int, Dhaga] = {}
"""What was started here and has not ended, by ident."""

count_others = standard._count


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    """Run ``function(*args, **kwargs)`` in a dhaga. Returns: its ident. Source: ``_thread.start_new_thread``."""
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError("optional 3rd arg must be a dictionary")
    return start(function, args, kwargs or {}).ident


start_new = start_new_thread


def start(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any], daemon: bool = True) -> Dhaga:
    def run() -> None:
        try:
            function(*args, **kwargs)
        except SystemExit:
            pass  # it ends the thread alone
        except Exception as error:
            tell_unraisable(function, error)

    dhaga = scheduler_here().spawn(run, daemon=daemon)
    running[dhaga.ident] = dhaga
    dhaga.keep(lambda: running)
    return dhaga


def tell_unraisable(function: Callable[..., object], error: Exception) -> None:
    """Bring an error that has ended a thread to ``sys.unraisablehook``, in the words of this Python."""
    message, culprit = "Exception ignored in thread started by", cast(Any, function)
    if sys.version_info >= (3, 13):
        message, culprit = f"{message} {function!r}", None
    sys.unraisablehook(UnraisableHookArgs((type(error), error, error.__traceback__, message, culprit)))


def _count() -> int:
    """Return how many threads run that Python has started, dhagas and others."""
    alive = [dhaga for dhaga in running.values() if not dhaga.done]  # in a forked child all but one are done
    return count_others() + len(alive) + sum(thread._dhaga is not None for thread in _active.values())


class _ThreadHandle:
    """What joins a thread that ``start_joinable_thread`` has started. Source: Python 3.13."""

    __slots__ = ("dhaga",)

    def __init__(self) -> None:
        self.dhaga: Dhaga | None = None

    def __repr__(self) -> str:
        return f"<_ThreadHandle object: ident={self.ident}>"

    @property
    def ident(self) -> int:
        """The number of the thread, 0 before its start."""
        return 0 if self.dhaga is None else self.dhaga.ident

    def started(self) -> Dhaga:
        if self.dhaga is None:
            raise RuntimeError("thread not started")
        return self.dhaga

    def is_done(self) -> bool:
        """Tell whether the thread has ended."""
        return self.dhaga is not None and self.dhaga.done

    def join(self, timeout: float | None = None, /) -> None:
        """Wait until the thread has ended. Parks: while it lives (``join``). Raises: RuntimeError on itself."""
        dhaga = self.started()
        if dhaga.ident == get_ident():
            raise RuntimeError("Cannot join current thread")
        dhaga.join(timeout if timeout is None or timeout >= 0 else None)

    def _set_done(self) -> None:
        self.started()


def start_joinable_thread(
    function: Callable[[], object], handle: _ThreadHandle | None = None, daemon: bool = True
) -> _ThreadHandle:
    """Run ``function()`` in a dhaga. Returns: what joins it. Source: Python 3.13, for ``threading`` alone."""
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
