"""ctypes in a patched program: functions of C that take the ident of a thread get one that C can follow.

C takes an ident for a ``pthread_t``, and dereferences it; a dhaga's is no address. ``install`` has libraries hand out
the functions of ``FUNCTIONS`` by subclasses of their own kind, which translate the first argument. That reaches what is
called by ctypes. Idents that extension modules, or cffi, pass to C by themselves are out of reach: to be valid there an
ident would have to be the address of a ``struct pthread`` of its own, which no public function of libc makes.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.errors import Cancelled, Expired
from .._kernel.idents import is_dhaga_ident, live_dhaga, live_main, os_thread_of
from .._kernel.waiter import Waiter

__all__ = ["install", "uninstall"]

Function = Callable[..., Any]

standard_getitem = ctypes.CDLL.__getitem__


def install() -> None:
    """Make libraries, loaded now or later, hand out translating functions; those handed out before stay."""
    ctypes.CDLL.__getitem__ = getitem  # type: ignore[method-assign]
    cached = vars(ctypes.pythonapi)
    for name in FUNCTIONS.keys() & cached.keys():
        former, cached[name] = cached[name], ctypes.pythonapi[name]
        cached[name].argtypes, cached[name].restype = former.argtypes, former.restype


def uninstall() -> None:
    """Undo ``install``. Functions handed out meanwhile stay, and work for OS threads as before."""
    ctypes.CDLL.__getitem__ = standard_getitem  # type: ignore[method-assign]


def getitem(self: ctypes.CDLL, name: Any) -> Any:
    """Return a function of a library. Source: ``ctypes.CDLL.__getitem__``, which ``__getattr__`` calls, too."""
    function = standard_getitem(self, name)
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
    """Return the ident of a dhaga that an argument holds, as a number or a C integer; None if it is another's."""
    value = getattr(argument, "value", argument)
    return value if isinstance(value, int) and is_dhaga_ident(value) else None


# ---- functions of the thread library


def call_for_os_thread(function: Function, thread: Any = None, *arguments: Any) -> Any:
    """Call a function for the OS thread that runs the dhaga. Returns: ESRCH for one that has ended."""
    ident = ident_in(thread)
    if ident is None:
        return function(thread, *arguments)
    try:
        return function(ctypes.c_void_p(os_thread_of(ident)), *arguments)
    except ProcessLookupError:
        return errno.ESRCH


def set_name(function: Function, thread: Any = None, *arguments: Any) -> Any:
    """Leave the name of the OS thread as it is: it is no dhaga's own, and the main one's is that of the process."""
    ident = ident_in(thread)
    if ident is None:
        return function(thread, *arguments)
    return errno.ESRCH if live_dhaga(ident) is None else 0


# ---- PyThreadState_SetAsyncExc


def set_async_exc(function: Function, thread: Any, error: Any) -> Any:
    """Raise an error in a thread: in a dhaga or main code at its park, or at its next one; NULL takes it back.

    Returns: the number of threads found. Source: ``PyThreadState_SetAsyncExc``; a park ends at once, whereas OS threads
    first come back from the C function that they wait in.
    """
    ident = getattr(thread, "value", thread)
    waiter = live_dhaga(ident) or live_main(ident)
    if waiter is None:
        return 0 if is_dhaga_ident(ident) else function(thread, error)
    if getcurrent() in (waiter, getattr(waiter, "_greenlet", waiter)):
        return function(ctypes.c_ulong(originals.get_ident()), error)
    kind = error if not isinstance(error, ctypes.py_object) else error.value if error else None
    waiter.scheduler._call(drop_errors if kind is None else raise_in, waiter, kind)
    return 1


def raise_in(waiter: Waiter, kind: Any) -> None:
    waiter._cancel_with(kind() if isinstance(kind, type) else kind)


def drop_errors(waiter: Waiter, _: None) -> None:
    """Take back what is pending apart from cancels."""
    for error in list(waiter._pending):
        if isinstance(error, BaseException) and not isinstance(error, (Cancelled, Expired)):
            waiter._pending.remove(error)


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
"""What is called in the place of a function of C, with that function first."""
