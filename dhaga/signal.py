"""The standard ``signal`` on dhagas: handlers are called in the main code, and who waits for a signal parks.

Whatever is not defined here is the standard module's own.
"""

from __future__ import annotations

import signal as standard
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from .kernel import originals
from .kernel.interrupts import on_ctrl_c
from .kernel.osthread import OSThread
from .kernel.scheduler import sleep
from .kernel.summons import call_in_main
from .kernel.waiting import WaitQueue, this_waiter

__all__ = ["getsignal", "pause", "signal", "sigtimedwait", "sigwait", "sigwaitinfo"]

LOOKS_EVERY = 0.02
"""Seconds between two looks of ``sigwait`` at the signals that are blocked: 50 a second cost 0.1 % of a core."""

standard_signal, standard_getsignal = standard.signal, standard.getsignal
standard_pause, standard_sigwait = standard.pause, standard.sigwait
standard_sigwaitinfo: Any = getattr(standard, "sigwaitinfo", None)  # macOS has neither
standard_sigtimedwait: Any = getattr(standard, "sigtimedwait", None)
pausing = WaitQueue(standard, "signal.pause")


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class Handler:
    """What the standard module calls when a signal has come: it has the program's function called in the main code."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[int, FrameType | None], object]) -> None:
        self.function = function

    def __call__(self, number: int, frame: FrameType | None) -> None:
        call_in_main(self.call, number, frame)

    def call(self, number: int, frame: FrameType | None) -> None:
        try:
            self.function(number, frame)
        finally:
            pausing.wake_all()


def signal(signalnum: int, handler: Any) -> Any:
    """Set the handler of a signal. Returns: the former one.

    It is called in the main code of the process: at once if that runs, else in the middle of its park, once the dhaga
    that computes parks. It may park itself, and what it raises comes to the main code. Source: ``signal.signal``.
    """
    if handler is standard.default_int_handler or handler is on_ctrl_c:
        handler = on_ctrl_c
    elif callable(handler) and not isinstance(handler, standard.Handlers):
        handler = Handler(handler)
    return shown(standard_signal(signalnum, handler))


def getsignal(signalnum: int) -> Any:
    """Return the handler of a signal, as ``signal`` has got it."""
    return shown(standard_getsignal(signalnum))


def shown(handler: Any) -> Any:
    if isinstance(handler, Handler):
        return handler.function
    return standard.default_int_handler if handler is on_ctrl_c else handler


def pause() -> None:
    """Wait until a signal has come and its handler was called. Parks: until then (``signal.pause``)."""
    if isinstance(this_waiter(), OSThread):
        standard_pause()
        return
    me: Any = this_waiter()
    me.scheduler.outside_calls += 1  # no deadlock: the wake comes from outside
    try:
        pausing.wait(False, pausing.wake_all)
    finally:
        me.scheduler.outside_calls -= 1


def sigwait(sigset: Iterable[int]) -> Any:
    """Wait for a signal that is blocked, and take it. Parks: until it comes (``sleep``), looking 50 times a second."""
    sigset = set(sigset)
    if not isinstance(this_waiter(), OSThread):
        while not standard.sigpending() & sigset:
            sleep(LOOKS_EVERY)
    return standard_sigwait(sigset)


def sigwaitinfo(sigset: Iterable[int]) -> Any:
    """Wait for a signal that is blocked, and take what is known of it. Parks: as ``sigwait`` does."""
    sigset = set(sigset)
    if not isinstance(this_waiter(), OSThread):
        while (found := standard_sigtimedwait(sigset, 0)) is None:
            sleep(LOOKS_EVERY)
        return found
    return standard_sigwaitinfo(sigset)


def sigtimedwait(sigset: Iterable[int], timeout: float) -> Any:
    """Do what ``sigwaitinfo`` does. Returns: None after ``timeout`` seconds. Raises: ValueError below 0."""
    sigset = set(sigset)
    if isinstance(this_waiter(), OSThread) or timeout <= 0:
        return standard_sigtimedwait(sigset, timeout)
    deadline = originals.monotonic() + timeout
    while (found := standard_sigtimedwait(sigset, 0)) is None and (left := deadline - originals.monotonic()) > 0:
        sleep(min(left, LOOKS_EVERY))
    return found
