"""``eventlet.greenthread``: a dhaga with the face of eventlet's GreenThread.

All are daemons, as eventlet's: a program ends with its main code. A link is called in its greenthread, at the end of
that, before those who wait for the result go on.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent

from ..._kernel.api import current
from ..._kernel.api import sleep as sleep_
from ..._kernel.current_scheduler import current_scheduler
from ..._kernel.errors import Cancelled
from ..._kernel.foreign_names import OwnName
from ..._kernel.microthread import Dhaga
from ..._kernel.timers import Entry
from . import _settings

__all__ = [
    "GreenThread",
    "GreenletExit",
    "call_after",
    "call_after_global",
    "call_after_local",
    "cancel",
    "exc_after",
    "getcurrent",
    "kill",
    "sleep",
    "spawn",
    "spawn_after",
    "spawn_after_local",
    "spawn_n",
]

Function = Callable[..., Any]

logger = logging.getLogger("dhaga")


class RawGreenThread(Dhaga[Any]):
    """What ``spawn_n`` returns: it can be killed, and has no result to wait for."""

    _is_thread = False
    __slots__ = ()

    @property
    def dead(self) -> bool:
        """Whether it has ended."""
        return self._done

    def throw(self, *throw_args: Any) -> None:
        """Raise an error where it waits, GreenletExit by default. Parks: never. From: the hub, any greenthread."""
        raise_in(self, error_of(throw_args))

    def _report(self, error: BaseException) -> None:
        if isinstance(error, _settings.unreported):
            return
        if _settings.hub_exceptions or not isinstance(error, Exception):
            super()._report(error)


class GreenThread(RawGreenThread):
    """A microthread whose result can be waited for. Source: ``eventlet.GreenThread``; made by ``spawn``."""

    priority: Any = OwnName(Dhaga.priority)  # type: ignore[arg-type]
    reason: Any = OwnName(Dhaga.reason)  # type: ignore[arg-type]
    state: Any = OwnName(Dhaga.state)  # type: ignore[arg-type]

    _links: list[tuple[Function, tuple[Any, ...], dict[str, Any]]] | None = None
    _outcome: tuple[Any, BaseException | None] | None = None
    _entry: Entry | None = None
    _parent: Dhaga[Any] | None = None

    def _stand_in(self) -> Any:
        """Return what ``threading.current_thread()`` returns here."""
        return thread_stand_in()(self)

    def wait(self) -> Any:
        """Return what the function returned, or raise its error: GreenletExit if it was killed. Parks: until then."""
        if self._outcome is None:
            return self.result()
        value, error = self._outcome
        if error is not None:
            raise error.with_traceback(value)
        return value

    def link(self, func: Function, *args: Any, **kwargs: Any) -> None:
        """Call ``func(self, *args, **kwargs)`` in this greenthread at its end; in the caller if that was before."""
        if self._done:
            func(self, *args, **kwargs)
        elif self._links is None:
            self._links = [(func, args, kwargs)]
        else:
            self._links.append((func, args, kwargs))

    def unlink(self, func: Function, *args: Any, **kwargs: Any) -> bool:
        """Forget a link. Returns: whether it was there."""
        found = bool(self._links) and (func, args, kwargs) in self._links  # type: ignore[operator]
        if found:
            self._links.remove((func, args, kwargs))  # type: ignore[union-attr]
        return found

    def kill(self, *throw_args: Any) -> None:
        """Raise an error in it, GreenletExit by default; see ``greenthread.kill``."""
        kill(self, *throw_args)

    def cancel(self, *throw_args: Any) -> bool:
        """Kill it if it has not started yet."""
        if throw_args and not isinstance(throw_args[0], (type, BaseException)):
            return super().cancel(*throw_args)  # by Dhaga's own code, with a reason
        before = not self and not self._done
        cancel(self, *throw_args)
        return before

    def _end(self) -> None:
        if self._links:
            self._call_links(self._links)
        super()._end()

    def _call_links(self, links: list[Any]) -> None:
        """Call what is linked. A link may wait, which uses the fields that hold the outcome."""
        value, error, target = self._value, self._error, self._target
        self._outcome = value, error
        self._error = None
        while links:
            function, args, kwargs = links.pop(0)
            try:
                function(self, *args, **kwargs)
            except BaseException as raised:  # whatever it is, the end goes on
                if not was_killed(raised):
                    logger.exception("a link of %r", self)
        self._value, self._error, self._target = value, error, target
        self._outcome = None

    def _expire(self) -> None:
        """Start, or end a park that is too late. From: the scheduler's timers, on the hub."""
        if self._entry is None:
            super()._expire()
            return
        self._entry = None
        if self._parent is None or not self._parent._done:
            self.scheduler._admit(self)
        else:
            self._end_unstarted(GreenletExit())

    def _end_unstarted(self, error: BaseException) -> None:
        """Let its start be its end: the function is never called."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self.scheduler._timers.discard(entry)
        self._pending = [error]
        self.scheduler._admit(self)


@functools.cache
def thread_stand_in() -> Any:
    """Return the class of stand-ins; imported when it is asked for, as ``threading`` is much."""
    from ._stand_in import GreenThreadStandIn

    return GreenThreadStandIn


def spawn(func: Function, *args: Any, **kwargs: Any) -> GreenThread:
    """Start a greenthread that calls a function. Parks: never."""
    scheduler = current_scheduler()
    greenthread = GreenThread(scheduler, func, args, kwargs or None, None, True)
    scheduler._admit(greenthread)
    return greenthread


def spawn_n(func: Function, *args: Any, **kwargs: Any) -> Any:
    """Start a greenthread whose result cannot be waited for."""
    scheduler = current_scheduler()
    greenthread = RawGreenThread(scheduler, func, args, kwargs or None, None, True)
    scheduler._admit(greenthread)
    return greenthread


def spawn_after(seconds: float, func: Function, *args: Any, **kwargs: Any) -> GreenThread:
    """Start a greenthread in so many seconds; ``cancel`` prevents it until then."""
    scheduler = current_scheduler()
    greenthread = GreenThread(scheduler, func, args, kwargs or None, None, True)
    if seconds <= 0:
        scheduler._admit(greenthread)
        return greenthread
    greenthread._entry = scheduler._timers.add(scheduler._clock() + seconds, greenthread)
    return greenthread


def spawn_after_local(seconds: float, func: Function, *args: Any, **kwargs: Any) -> GreenThread:
    """Start a greenthread in so many seconds, unless the calling one has ended by then."""
    me = getcurrent()
    greenthread = spawn_after(seconds, func, *args, **kwargs)
    greenthread._parent = me if isinstance(me, Dhaga) else None
    return greenthread


def exc_after(seconds: float | None, *throw_args: Any) -> Any:
    """Raise an error in the caller in so many seconds, unless what this returns is cancelled. Source: deprecated."""
    from .timeout import Timeout

    return Timeout(seconds, error_of(throw_args))


def call_after_local(seconds: float, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function on the hub in so many seconds, unless the calling greenthread has ended. Source: deprecated."""
    from .hubs import get_hub

    return get_hub().schedule_call_local(seconds, function, *args, **kwargs)


def call_after_global(seconds: float, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function on the hub, where it must not wait, in so many seconds. Source: deprecated."""
    from .hubs import get_hub

    return get_hub().schedule_call_global(seconds, function, *args, **kwargs)


call_after = call_after_local


def sleep(seconds: float = 0) -> None:
    """Let others run for so many seconds; 0: once, those included whose sockets are ready. Parks: until then."""
    if seconds > 0:
        sleep_(seconds)
        return
    me = current()
    poller = me.scheduler._poller
    if poller.watchers:
        poller.poll()
    sleep_(0)
    if me._pending:
        me._prepare("sleep")  # a kill, or a Timeout, that came meanwhile


def kill(g: Any, *throw_args: Any) -> None:
    """Raise an error where a greenthread waits: GreenletExit, an error, or what ``sys.exc_info`` returned.

    One that has not started never runs. Parks: once, so that it has met the error when this returns.
    """
    waiter = g
    if not isinstance(g, Dhaga):  # main code, whose greenlet is a plain one
        waiter = current_scheduler()._main
        if waiter is None or (g is not waiter and g is not getattr(waiter, "_greenlet", None)):
            raise TypeError(f"{g!r} is none of Dhaga's microthreads, nor the main code of this thread")
    elif g._done:
        return
    error = error_of(throw_args)
    me = current() if not isinstance(getcurrent(), Dhaga) else getcurrent()
    if waiter is me:
        raise error
    raise_in(waiter, error)
    sleep(0)


def raise_in(waiter: Any, error: BaseException) -> None:
    """Raise an error where a waiter parks, or parks next; one that has not started never runs."""
    if isinstance(waiter, GreenThread) and waiter._entry is not None:
        waiter._end_unstarted(error)
    elif not getattr(waiter, "_done", False):
        waiter.scheduler._call(waiter._cancel_with, error)


def cancel(g: Any, *throw_args: Any) -> None:
    """Kill a greenthread that has not started yet; no-op for any other."""
    if not g:
        kill(g, *throw_args)


def error_of(args: tuple[Any, ...]) -> BaseException:
    """Return the error that the arguments of ``raise``, or of ``sys.exc_info``, mean."""
    kind: Any = args[0] if args else GreenletExit
    value = args[1] if len(args) > 1 else None
    if isinstance(kind, BaseException):
        error = kind
    elif isinstance(value, BaseException):
        error = value
    else:
        error = kind() if value is None else kind(value)
    return error.with_traceback(args[2]) if len(args) > 2 and args[2] is not None else error


def was_killed(error: BaseException | None) -> bool:
    """Return whether an error is the end that others have set."""
    return isinstance(error, (GreenletExit, Cancelled))
