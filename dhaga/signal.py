"""The standard ``signal`` on dhagas: handlers run in the main code, and waiting for a signal parks.

Python may call a handler in any dhaga, which must not park for it: so the function passed to ``signal`` is wrapped in a
``Handler``, which passes the call on to the main code (``_kernel/process/signals.py``). C lets each dhaga of the main
OS thread set handlers. Here dhagas are threads, and ``refuse_in_thread`` refuses that. All other names are the standard
module's own.
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
"""Seconds between two polls of ``sigwait`` for blocked signals: 50 a second cost 0.1 % of a core."""

_standard_signal, _standard_getsignal = standard.signal, standard.getsignal
_standard_pause: Any = getattr(standard, "pause", None)  # missing on Windows, as are the next two
_standard_sigwait: Any = getattr(standard, "sigwait", None)
_standard_sigwaitinfo: Any = getattr(standard, "sigwaitinfo", None)  # missing on macOS
_standard_sigtimedwait: Any = getattr(standard, "sigtimedwait", None)
_standard_pthread_kill: Any = getattr(standard, "pthread_kill", None)
standard_set_wakeup_fd: Any = standard.set_wakeup_fd

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class Handler:
    """The handler that the standard module calls: it makes the main code call the program's function."""

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
    """Set the handler of a signal. Returns: the former one.

    The handler runs in the main code of the process: at once if that is running, else in the middle of its park, as
    soon as the running dhaga parks. It may park itself, and its errors are raised in the main code. Raises: ValueError
    outside the main code. Source: ``signal.signal``.
    """
    refuse_in_thread("signal")
    wakeup_detour.settle(signalnum, sys._getframe(1))
    if handler is standard.default_int_handler or handler is on_ctrl_c:
        handler = on_ctrl_c
    elif callable(handler) and not isinstance(handler, standard.Handlers):
        handler = Handler(handler)
    former = _standard_signal(signalnum, handler)
    wakeup_detour.settle(signalnum, sys._getframe(1))  # one that has come in these lines
    return unwrap_handler(former)


def refuse_in_thread(function: str) -> None:
    """Raise ValueError, as C does for OS threads, unless the caller is the main thread of the program.

    A program does not regard a greenlet of ``dhaga.compat`` as a thread: for a greenlet C decides, by the OS thread.
    """
    if current_thread() is not main_thread() and getattr(this_waiter(), "stands_for_thread", True):
        raise ValueError(f"{function} only works in main thread of the main interpreter")


@builtin_function
def set_wakeup_fd(fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
    """Set the fd that the number of each signal is written to; -1: none. Returns: the former one, or -1.

    The scheduler of the main code has a self-pipe there while the program has no fd of its own; it is not returned.
    Raises: ValueError outside the main code. Source: ``signal.set_wakeup_fd``.
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
    """Return the fd by which signals end the sleep of this thread's scheduler; -1 if it has none."""
    selector = this_thread.main and this_thread.main.scheduler.selector
    return selector.wakeup_pipe.write_end.fileno() if selector and selector.wakeup_pipe else -1


@builtin_function
def pthread_kill(thread_id: int, signalnum: int, /) -> None:
    """Send a signal to the OS thread that runs a thread. Raises: ProcessLookupError for a dhaga that has ended.

    Source: ``signal.pthread_kill``; a Python handler runs in the main code, whichever thread is sent the signal.
    """
    _standard_pthread_kill(os_thread_of(operator.index(thread_id)), signalnum)


def getsignal(signalnum: int) -> Any:
    """Return the handler of a signal as it was given to ``signal``."""
    return unwrap_handler(_standard_getsignal(signalnum))


def unwrap_handler(handler: Any) -> Any:
    """Return the program's own handler instead of our wrapper."""
    if isinstance(handler, Handler):
        return handler.function
    return standard.default_int_handler if handler is on_ctrl_c else handler


@builtin_function
def pause() -> None:
    """Wait until a signal has arrived and its handler was called. Parks: until then (``signal.pause``)."""
    if isinstance(this_waiter(), OSThread):
        _standard_pause()
        return
    me: Any = this_waiter()
    me.scheduler.outside_calls += 1  # an outside wake is expected: no deadlock
    try:
        pause_queue.wait(False, pause_queue.wake_all)
    finally:
        me.scheduler.outside_calls -= 1


# In a plain thread it returns once a handler was called: a held-off signal would arrive later.
BLOCKING.add(pause.__wrapped__.__code__)  # type: ignore[attr-defined]


def sigwait(sigset: Iterable[int]) -> Any:
    """Wait for a blocked signal and take it. Parks: until it arrives (``sleep``), polling 50 times a second."""
    sigset = set(sigset)
    if not isinstance(this_waiter(), OSThread):
        while not standard.sigpending() & sigset:
            sleep(POLL_INTERVAL)
    return _standard_sigwait(sigset)


@builtin_function
def sigwaitinfo(sigset: Iterable[int]) -> Any:
    """Wait for a blocked signal and return its details. Parks: as ``sigwait``."""
    sigset = set(sigset)
    if not isinstance(this_waiter(), OSThread):
        while (found := _standard_sigtimedwait(sigset, 0)) is None:
            sleep(POLL_INTERVAL)
        return found
    return _standard_sigwaitinfo(sigset)


@builtin_function
def sigtimedwait(sigset: Iterable[int], timeout: float) -> Any:
    """As ``sigwaitinfo``. Returns: None after ``timeout`` seconds. Raises: ValueError below 0 and for NaN."""
    sigset = set(sigset)
    # The standard call refuses NaN and too large numbers.
    if isinstance(this_waiter(), OSThread) or not 0 < timeout <= originals.TIMEOUT_MAX:
        return _standard_sigtimedwait(sigset, timeout)
    clock = clock_here()
    deadline = clock() + timeout
    while (found := _standard_sigtimedwait(sigset, 0)) is None and (left := deadline - clock()) > 0:
        sleep(min(left, POLL_INTERVAL))
    return found


remove_names(globals(), [name for name in __all__ if not hasattr(standard, name)])
