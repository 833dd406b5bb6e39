"""The standard ``signal`` for dhagas: handlers run in the main code, and waiting for a signal parks.

Python may call a handler in any dhaga, where the handler must not park. So ``signal`` wraps the program's function in a
``Handler``, which passes the call to the main code (``_kernel/process/signals.py``). CPython checks only the
OS thread, so it would let each dhaga of the main OS thread set handlers. But dhagas count as threads here: for them,
``refuse_in_thread`` raises the error that a thread would get. All other names are the standard module's own.
"""

from __future__ import annotations

import operator
import signal as standard
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from ._kernel import originals
from ._kernel.faces.stdlib_face import builtin_function, fall_back_to, remove_names
from ._kernel.process import wakeup_detour
from ._kernel.process.signals import BLOCKING, call_in_main, on_ctrl_c, pause_queue
from ._kernel.run.idents import os_thread_of
from ._kernel.run.scheduler import sleep
from ._kernel.wait.current import clock_here, this_thread, this_waiter
from ._kernel.wait.thread_waiter import OSThread
from .threading import current_thread, main_thread

__all__ = ["getsignal", "pause", "pthread_kill", "set_wakeup_fd", "signal", "sigtimedwait", "sigwait", "sigwaitinfo"]

POLL_INTERVAL = 0.02
"""Seconds between two polls of ``sigwait`` for blocked signals. 50 polls per second take 0.1 % of a CPU."""

_standard_signal, _standard_getsignal = standard.signal, standard.getsignal
_standard_pause: Any = getattr(standard, "pause", None)  # missing on Windows, like the next three and pthread_kill
_standard_sigwait: Any = getattr(standard, "sigwait", None)
_standard_sigwaitinfo: Any = getattr(standard, "sigwaitinfo", None)  # also missing on macOS, like sigtimedwait
_standard_sigtimedwait: Any = getattr(standard, "sigtimedwait", None)
_standard_pthread_kill: Any = getattr(standard, "pthread_kill", None)
standard_set_wakeup_fd: Any = standard.set_wakeup_fd

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class Handler:
    """A handler for the standard module. It makes the main code call the program's function."""

    __slots__ = ("function",)
    ends_pause = True

    def __init__(self, function: Callable[[int, FrameType | None], object]) -> None:
        self.function: Callable[[int, FrameType | None], object] = function

    def __call__(self, number: int, frame: FrameType | None) -> None:
        call_in_main(self.call, number, frame)

    def call(self, number: int, frame: FrameType | None) -> None:
        try:
            self.function(number, frame)
        finally:
            pause_queue.wake_all()


def signal(signalnum: int, handler: Any) -> Any:
    """Set the handler of a signal. Returns: the former handler.

    The handler runs in the main code of the process: at once if the main code is running. If the main code is parked,
    the handler runs during that park, in the main code's next turn. The handler may park, and its errors are raised in
    the main code. Raises: ValueError outside the main code. Source: ``signal.signal``.
    """
    refuse_in_thread("signal")
    wakeup_detour.settle(signalnum, sys._getframe(1))
    if handler is standard.default_int_handler or handler is on_ctrl_c:
        handler = on_ctrl_c
    elif callable(handler) and not isinstance(handler, standard.Handlers):
        handler = Handler(handler)
    former = _standard_signal(signalnum, handler)
    wakeup_detour.settle(signalnum, sys._getframe(1))  # again, for a signal that has arrived since the first call
    return unwrap_handler(former)


def refuse_in_thread(function: str) -> None:
    """Raise ValueError, as C does for OS threads, unless the caller is the main thread of the program.

    For the program, a greenlet of ``dhaga.compat`` is not a thread. So such a greenlet is not refused here; C checks
    its OS thread.
    """
    if current_thread() is not main_thread() and getattr(this_waiter(), "stands_for_thread", True):
        raise ValueError(f"{function} only works in main thread of the main interpreter")


@builtin_function
def set_wakeup_fd(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
    """Set the fd to which C writes the number of each signal; -1 means none. Returns: the former fd, or -1.

    Until the program sets an fd, C writes to a pipe of the main code's scheduler. The fd of this pipe is never
    returned. Raises: ValueError outside the main code. Source: ``signal.set_wakeup_fd``.
    """
    refuse_in_thread("set_wakeup_fd")
    wakeup_detour.give_back()
    own = wakeup_fd_of_scheduler()
    if fd == -1 and own != -1:
        former = standard_set_wakeup_fd(own, warn_on_full_buffer=False)
    else:
        former = standard_set_wakeup_fd(fd, warn_on_full_buffer=warn_on_full_buffer)
    return -1 if former == own else former


def wakeup_fd_of_scheduler() -> int:
    """Return the fd through which signals wake this thread's scheduler; -1 without such an fd."""
    selector = this_thread.main and this_thread.main.scheduler.selector
    return selector.wakeup_pipe.write_end.fileno() if selector and selector.wakeup_pipe else -1


@builtin_function
def pthread_kill(thread_id: int, signalnum: int, /) -> None:
    """Send a signal to the OS thread of a thread or dhaga. Raises: ProcessLookupError for an ended dhaga.

    Source: ``signal.pthread_kill``; a Python handler runs in the main code, whichever thread gets the signal.
    """
    _standard_pthread_kill(os_thread_of(operator.index(thread_id)), signalnum)


def getsignal(signalnum: int) -> Any:
    """Return a signal's handler, in the form in which the program has passed it to ``signal``."""
    return unwrap_handler(_standard_getsignal(signalnum))


def unwrap_handler(handler: Any) -> Any:
    """Return the program's function if ``handler`` wraps one; return any other ``handler`` unchanged."""
    if isinstance(handler, Handler):
        return handler.function
    return standard.default_int_handler if handler is on_ctrl_c else handler


@builtin_function
def pause() -> None:
    """Wait until a signal has arrived and its handler was called. Parks: ``signal.pause``."""
    if isinstance(this_waiter(), OSThread):
        _standard_pause()
        return
    me: Any = this_waiter()
    me.scheduler.outside_calls += 1  # a signal wakes the caller from outside, so this wait is not a deadlock
    try:
        pause_queue.wait(False, pause_queue.wake_all)
    finally:
        me.scheduler.outside_calls -= 1


# In a plain OS thread, pause() ends only after a handler was called, so signals must not be delayed during the call.
BLOCKING.add(pause.__wrapped__.__code__)  # type: ignore[attr-defined]


def sigwait(sigset: Iterable[int]) -> Any:
    """Wait for a blocked signal and remove it. Parks: until it arrives (``sleep``), with 50 polls per second."""
    sigset = set(sigset)
    if not isinstance(this_waiter(), OSThread):
        while not standard.sigpending() & sigset:
            sleep(POLL_INTERVAL)
    return _standard_sigwait(sigset)


@builtin_function
def sigwaitinfo(sigset: Iterable[int]) -> Any:
    """Wait for a blocked signal and return its details. Parks: like ``sigwait``."""
    sigset = set(sigset)
    if not isinstance(this_waiter(), OSThread):
        while (found := _standard_sigtimedwait(sigset, 0)) is None:
            sleep(POLL_INTERVAL)
        return found
    return _standard_sigwaitinfo(sigset)


@builtin_function
def sigtimedwait(sigset: Iterable[int], timeout: float) -> Any:
    """Wait like ``sigwaitinfo``. Returns: None after ``timeout`` seconds. Raises: ValueError for NaN, or below 0."""
    sigset = set(sigset)
    # The standard call raises the errors for NaN, and for numbers that are below 0 or too large.
    if isinstance(this_waiter(), OSThread) or not 0 < timeout <= originals.TIMEOUT_MAX:
        return _standard_sigtimedwait(sigset, timeout)
    clock = clock_here()
    deadline = clock() + timeout
    while (found := _standard_sigtimedwait(sigset, 0)) is None and (left := deadline - clock()) > 0:
        sleep(min(left, POLL_INTERVAL))
    return found


remove_names(globals(), [name for name in __all__ if not hasattr(standard, name)])
