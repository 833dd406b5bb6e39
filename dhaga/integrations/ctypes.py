"""ctypes in a patched program: C functions that take a thread's ident get the OS thread's ident instead of a dhaga's.

C functions dereference an ident as a ``pthread_t``, but a dhaga's ident is not an address. After ``install``, a
function that a library returns for a name in ``FUNCTIONS`` translates its first argument. For each such function,
``getitem`` creates a subclass of the function's class, with one instance. Calls through ctypes are covered, but not
idents that extension modules or cffi pass to C.
Rejected: idents of dhagas that are valid in C. Such an ident would have to be the address of a ``struct pthread``,
which no public function of libc creates.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.errors import Cancelled, Expired
from .._kernel.run.idents import is_dhaga_ident, live_dhaga, live_main, os_thread_of
from .._kernel.wait.waiter import Waiter

__all__ = ["install", "uninstall"]

Function = Callable[..., Any]

_standard_getitem = ctypes.CDLL.__getitem__


def install() -> None:
    """Make all libraries return translating functions, including libraries that are loaded later. Functions that a
    library has already returned are unchanged, except functions of ``ctypes.pythonapi``.
    """
    ctypes.CDLL.__getitem__ = getitem  # type: ignore[method-assign]
    cached = vars(ctypes.pythonapi)
    for name in FUNCTIONS.keys() & cached.keys():
        former, cached[name] = cached[name], ctypes.pythonapi[name]
        cached[name].argtypes, cached[name].restype = former.argtypes, former.restype


def uninstall() -> None:
    """Undo ``install``. Functions that libraries have returned meanwhile remain usable."""
    ctypes.CDLL.__getitem__ = _standard_getitem  # type: ignore[method-assign]


def getitem(self: ctypes.CDLL, name: Any) -> Any:
    """Return a function of a library; a function named in ``FUNCTIONS`` translates idents.

    Source: ``ctypes.CDLL.__getitem__``, which ``__getattr__`` also calls.
    """
    function = _standard_getitem(self, name)
    translate = FUNCTIONS.get(name)
    if translate is None:
        return function
    kind: Any = type(function)

    def call(self: Any, *arguments: Any) -> Any:
        return translate(lambda *arguments: kind.__call__(self, *arguments), *arguments)

    names = {"_flags_": kind._flags_, "_restype_": kind._restype_, "__call__": call}
    translating = type(kind)(kind.__name__, (kind,), names)((name, self))
    translating.__name__ = name
    return translating


def ident_in(argument: Any) -> int | None:
    """Return the value of an int or a C integer if this value is a dhaga's ident; otherwise, return None."""
    value = getattr(argument, "value", argument)
    return value if isinstance(value, int) and is_dhaga_ident(value) else None


# ---- functions of the thread library


def call_for_os_thread(function: Function, thread: Any = None, *arguments: Any) -> Any:
    """Call a function for the OS thread that runs a dhaga. Returns: the function's result; ESRCH for an ended dhaga."""
    ident = ident_in(thread)
    if ident is None:
        return function(thread, *arguments)
    try:
        return function(ctypes.c_void_p(os_thread_of(ident)), *arguments)
    except ProcessLookupError:
        return errno.ESRCH


def set_name(function: Function, thread: Any = None, *arguments: Any) -> Any:
    """Set the name of an OS thread. Do nothing for a dhaga, which shares its OS thread with other dhagas.

    A new name of the main thread would also rename the process.
    """
    ident = ident_in(thread)
    if ident is None:
        return function(thread, *arguments)
    return errno.ESRCH if live_dhaga(ident) is None else 0


# ---- PyThreadState_SetAsyncExc


def set_async_exc(function: Function, thread: Any, error: Any) -> Any:
    """Raise an error in a thread; in a dhaga or main code, raise it at the current or next park. NULL withdraws errors.

    Returns: the number of threads found. Source: ``PyThreadState_SetAsyncExc``. Difference: a park ends at once. An OS
    thread that waits in a C function raises the error only after the function has returned.
    """
    ident = getattr(thread, "value", thread)
    waiter = live_dhaga(ident) or live_main(ident)
    if waiter is None:
        return 0 if is_dhaga_ident(ident) else function(thread, error)
    if getcurrent() in (waiter, getattr(waiter, "own_greenlet", waiter)):
        return function(ctypes.c_ulong(originals.get_ident()), error)
    kind = error if not isinstance(error, ctypes.py_object) else error.value if error else None
    waiter.scheduler.call(drop_errors if kind is None else raise_in, waiter, kind)
    return 1


def raise_in(waiter: Waiter, kind: Any) -> None:
    waiter.cancel_with(kind() if isinstance(kind, type) else kind)


def drop_errors(waiter: Waiter, _: None) -> None:
    """Withdraw pending errors other than cancels."""
    for error in list(waiter.pending_errors):
        if isinstance(error, BaseException) and not isinstance(error, (Cancelled, Expired)):
            waiter.pending_errors.remove(error)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    "PyThreadState_SetAsyncExc": set_async_exc,
    "pthread_setname_np": set_name,
    **dict.fromkeys(
        (
            *("pthread_getaffinity_np", "pthread_getattr_np", "pthread_getcpuclockid", "pthread_getname_np"),
            *("pthread_getschedparam", "pthread_kill", "pthread_setaffinity_np", "pthread_setschedparam"),
            *("pthread_setschedprio", "pthread_sigqueue"),
        ),
        call_for_os_thread,
    ),
}
"""Replacements of C functions, called with the replaced function as the first argument."""
