"""``gevent.hub``: the parts of gevent's hub that programs use, based on the calling greenlet's scheduler."""

from __future__ import annotations

import logging
import signal as standard_signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from ..._kernel.api import current, park
from ..._kernel.api import sleep as sleep_
from ..._kernel.process.current_scheduler import current_scheduler
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.scheduler import Scheduler
from ..._kernel.wait.current import this_thread
from ...aio._await import await_
from .._shared.main_code import waiter_of
from .._shared.thrown import thrown
from . import _loop
from ._links import iwait, join_all, wait
from ._loop import Loop, hub_of, hubs, loop_of
from .exceptions import LoopExit
from .greenlet import Greenlet

__all__ = [
    "GreenletExit", "Hub", "LoopExit", "Waiter", "get_hub", "getcurrent", "idle", "iwait", "kill", "reinit", "signal",
    "sleep", "spawn_raw", "wait",
]  # fmt: skip

logger: logging.Logger = logging.getLogger("dhaga")

UNSET: Any = object()


class Hub:
    """The hub of one scheduler; ``get_hub()`` returns it."""

    SYSTEM_ERROR: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, SystemError)
    NOT_ERROR: tuple[type[BaseException], ...] = (GreenletExit, SystemExit)

    name = ""
    threadpool_size = 10

    def __init__(self, scheduler: Scheduler) -> None:
        self.loop: Loop = loop_of(scheduler)
        self._threadpool: Any = None
        self._stream: Any = UNSET

    def __repr__(self) -> str:
        return f"<Hub {self.name!r} of {self.loop.scheduler!r}>"

    @property
    def threadpool(self) -> Any:
        """The pool of OS threads for blocking calls, created on first use."""
        if self._threadpool is None:
            from .threadpool import ThreadPool

            self._threadpool = ThreadPool(self.threadpool_size)
        return self._threadpool

    @property
    def exception_stream(self) -> Any:
        """The file to which uncaught errors are written; None discards them. The default is standard error."""
        return sys.stderr if self._stream is UNSET else self._stream

    @exception_stream.setter
    def exception_stream(self, stream: Any) -> None:
        self._stream = stream

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all other greenlets have ended. Returns: False after ``timeout`` seconds."""
        return join_all(timeout)

    def wait(self, watcher: Any) -> None:
        """Wait for a watcher of this hub's loop. Parks: until the watcher fires."""
        waiter = Waiter(self)
        watcher.start(waiter.switch, waiter)
        try:
            result = waiter.get()
            if result is not waiter:
                raise AssertionError(f"Invalid switch into {getcurrent()!r}: {result!r}")
        finally:
            watcher.stop()

    minimal_ident = 0
    """The hub's number: greenlets are numbered from 1."""

    def switch(self, awaitable: Any = None) -> Any:
        """Wait while other greenlets run. Parks: until a Timeout, a kill, or a call of the dhaga's ``wake(value)``.

        If an awaitable is passed, await it and return its result: SQLAlchemy passes awaitables to a greenlet's parent,
        and ``parent`` of a Greenlet is its hub.
        """
        if awaitable is not None:
            return await_(awaitable)
        return park("gevent hub", lambda: True)

    def handle_error(self, context: Any, kind: Any, value: Any, trace: Any) -> None:
        """Report an uncaught error, unless its class is in ``NOT_ERROR``. Errors in ``SYSTEM_ERROR`` are also raised in
        the main code.

        ``context``: the greenlet that the error ended, the callback or server that raised the error, a request's
        environ, or None. With None, any error is also raised in the main code. A program may assign its own function to
        ``handle_error``.
        """
        if value is None:
            value = kind()
        if isinstance(context, Dhaga) and isinstance(value, (SystemExit, KeyboardInterrupt)):
            Dhaga._report(context, value)  # raises the error in the main code
            return
        if not isinstance(value, self.NOT_ERROR):
            self.print_exception(context, kind, value, trace)
        if context is None or isinstance(value, self.SYSTEM_ERROR):
            self.handle_system_error(kind, value, trace)

    def handle_system_error(self, kind: Any, value: Any, trace: Any = None) -> None:
        """Raise an error in the main code at its wait."""
        self.loop.scheduler.mode.interrupt(value)

    def print_exception(self, context: Any, kind: Any, value: Any, trace: Any) -> None:
        """Report an error: to ``dhaga.excepthook`` if it ended a greenlet, otherwise to the logger ``dhaga``.

        If the program has set an ``exception_stream``, only write the error there.
        """
        if self._stream is not UNSET:
            if self._stream:
                traceback.print_exception(kind, value, trace, file=self._stream)
                self._stream.write(f"{context!r} failed with {kind.__name__}\n\n")
        elif isinstance(context, Dhaga):
            Dhaga._report(context, value)
        else:
            logger.error("uncaught error of %r", context, exc_info=(kind, value, trace))

    @property
    def parent(self) -> Any:
        """A stand-in for the main code's greenlet. Its ``throw`` raises an error in the main code at its wait."""
        return Parent(self)

    def destroy(self, destroy_loop: bool | None = None) -> None:
        """Do nothing, because the scheduler ends with its thread."""


class Parent:
    """The main code as ``hub.parent``, with the method ``throw``."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def throw(self, *args: Any) -> None:
        """Raise an error, given by type, value and traceback, in the main code at its wait."""
        value = thrown(*args)
        self.hub.handle_system_error(type(value), value)


def get_hub(*_: object, **__: object) -> Hub:
    """Return the hub of the calling thread."""
    return hub_of(current_scheduler())  # type: ignore[no-any-return]


get_hub_noargs = get_hub

_loop.hub_class = Hub

parent = greenlet.__dict__["parent"]
# A program that reads ``parent`` gets the gevent hub. The scheduler sets the real parent, to which a greenlet switches
# when it ends.
greenlet_class: Any = Greenlet
greenlet_class.parent = property(lambda self: hub_of(self.scheduler), parent.__set__)


def get_hub_if_exists() -> Hub | None:
    """Return the hub of the calling thread, or None if it has no hub."""
    me = getcurrent()
    scheduler = me.scheduler if isinstance(me, Dhaga) else getattr(this_thread.main, "scheduler", None)
    return None if scheduler is None else hubs.get(scheduler)


class Waiter:
    """A channel for one value or error from a callback to the caller of ``get``. Source: ``gevent.hub.Waiter``."""

    def __init__(self, hub: Hub | None = None) -> None:
        self.hub: Hub = get_hub() if hub is None else hub
        self.clear()

    def clear(self) -> None:
        """Reset the waiter for another use."""
        self._waiter: Any = None
        self._value: Any = None
        self._error: BaseException | None = None
        self._ready = False

    def ready(self) -> bool:
        return self._ready

    def successful(self) -> bool:
        return self._ready and self._error is None

    @property
    def value(self) -> Any:
        return self._value

    def switch(self, value: Any = None) -> None:
        """Pass a value to the waiter."""
        self._ready, self._value, self._error = True, value, None
        if self._waiter is not None:
            self._waiter.wake_parked(value)

    def throw(self, *args: Any) -> None:
        """Pass an error, given by type, value and traceback, to the waiter."""
        error = thrown(*args)
        self._ready, self._error = True, error
        if self._waiter is not None:
            self._waiter.wake_parked(error=error)

    def __call__(self, source: Any) -> None:
        if source.successful():
            self.switch(source.value)
        else:
            self.throw(source.exception)

    def switch_args(self, *args: Any) -> None:
        """Pass several values, as a tuple."""
        self.switch(args)

    def get(self) -> Any:
        """Return the value or raise the error. Parks: until either is passed."""
        if not self._ready:
            if self._waiter is not None:
                from .exceptions import ConcurrentObjectUseError

                raise ConcurrentObjectUseError(f"This Waiter is already used by {self._waiter!r}")
            self._waiter = current()
            try:
                return park("gevent waiter", lambda: True)
            finally:
                self._waiter = None
        if self._error is not None:
            raise self._error
        return self._value


def sleep(seconds: float = 0, ref: bool = True) -> None:
    """Sleep for ``seconds`` seconds; with 0, yield once. Parks: meanwhile."""
    sleep_(seconds if seconds > 0 else 0)


def idle(priority: int = 0) -> None:
    """Yield repeatedly until no other greenlet is runnable. Parks: until then."""
    scheduler = current_scheduler()
    sleep_(0)
    while scheduler.count_runnable():
        sleep_(0)


def spawn_raw(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Greenlet:
    """Start a greenlet. This is the same as ``spawn``, because a bare greenlet would not be cheaper."""
    return Greenlet.spawn(function, *args, **kwargs)  # type: ignore[no-any-return]


def kill(greenlet: Any, exception: Any = GreenletExit) -> None:
    """Kill a greenlet. For main code or a dhaga without ``kill``, raise the error at its wait. Parks: never."""
    if hasattr(greenlet, "kill"):
        greenlet.kill(exception, block=False)
    else:
        waiter = waiter_of(greenlet)
        waiter.scheduler.call(waiter.cancel_with, thrown(exception))


class signal:
    """Registration of a function that runs in a greenlet on each signal. Source: ``gevent.signal_handler``."""

    def __init__(self, signalnum: int, handler: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        from ... import signal as ours

        if not callable(handler):
            raise TypeError("signal handler must be callable.")
        self.handler: Callable[..., Any] = handler
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        self.signalnum = signalnum
        self._previous = ours.signal(signalnum, lambda *_: self.handle())

    def handle(self) -> None:
        """Start a greenlet that runs the handler."""
        Greenlet.spawn(self.handler, *self.args, **self.kwargs)

    def cancel(self) -> None:
        """Restore the previous handler."""
        from ... import signal as ours

        ours.signal(self.signalnum, self._previous or standard_signal.SIG_DFL)


def reinit(hub: Any = None) -> None:
    """Do nothing, because a forked child reinitializes itself."""
