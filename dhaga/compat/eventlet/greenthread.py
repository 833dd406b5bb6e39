"""``eventlet.greenthread``: a dhaga with the methods and attributes of eventlet's GreenThread.

Like eventlet's greenthreads, these are daemons: the program ends with its main code. When a greenthread ends, it first
calls its links (the functions that ``link`` registered), and then wakes the waiters for its result.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextvars import Context
from typing import Any

from greenlet import GreenletExit, getcurrent

from ..._kernel import hooks
from ..._kernel.api import current
from ..._kernel.api import sleep as sleep_
from ..._kernel.errors import Cancelled
from ..._kernel.faces.foreign_names import OwnName
from ..._kernel.process.current_scheduler import current_scheduler
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.run_queues import NORMAL
from ..._kernel.run.scheduler import Scheduler
from ..._kernel.run.uncaught import interrupt_main
from ..._kernel.wait.cancellation import pending_errors_of
from .._shared.delayed_start import DelayedStart
from .._shared.generator_functions import taken_by_spawn
from .._shared.main_code import waiter_of
from .._shared.thrown import thrown
from . import _settings

__all__ = [
    "GreenThread", "GreenletExit", "call_after", "call_after_global", "call_after_local", "cancel", "exc_after",
    "getcurrent", "kill", "sleep", "spawn", "spawn_after", "spawn_after_local", "spawn_n",
]  # fmt: skip

Function = Callable[..., Any]

logger: logging.Logger = logging.getLogger("dhaga")


class RawGreenThread(Dhaga[Any]):
    """The greenthread of ``spawn_n``. It starts with an empty context, can be killed, and has no result."""

    stands_for_thread = False
    __slots__ = ()

    def __init__(self, scheduler: Scheduler, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # Calling Dhaga's own __init__ would make a spawn 4 % slower.
        self.set_up_dhaga(scheduler, taken_by_spawn(func), args, kwargs or None, None, True, Context(), NORMAL)

    @property
    def dead(self) -> bool:
        """Whether the greenthread has ended."""
        return self.has_ended

    def throw(self, *throw_args: Any) -> None:
        """Raise an error (default: GreenletExit) at this greenthread's wait. Parks: never. From: hub, greenthreads."""
        raise_in(self, thrown(*throw_args))

    def _report(self, error: BaseException) -> None:
        if isinstance(error, _settings.unreported):
            return
        if _settings.hub_exceptions or not isinstance(error, Exception):
            super()._report(error)


class GreenThread(RawGreenThread, DelayedStart):
    """A microthread whose result can be waited for; ``spawn`` creates it. Source: ``eventlet.GreenThread``."""

    priority: Any = OwnName(Dhaga.priority)  # type: ignore[arg-type]
    reason: Any = OwnName(Dhaga.reason)  # type: ignore[arg-type]
    state: Any = OwnName(Dhaga.state)  # type: ignore[arg-type]

    _links: list[tuple[Function, tuple[Any, ...], dict[str, Any]]] | None = None
    _outcome: tuple[Any, BaseException | None] | None = None
    _to_start = None
    _parent: Dhaga[Any] | None = None

    def _stand_in(self) -> Any:
        """Return the object that ``threading.current_thread()`` returns in this greenthread."""
        return thread_stand_in()(self)

    def wait(self) -> Any:
        """Return the function's result or raise its error, which is GreenletExit after a kill. Parks: until the end."""
        if self._outcome is None:
            return self.result()
        value, error = self._outcome
        if error is not None:
            raise error.with_traceback(getattr(self, "_trace", None))
        return value

    def link(self, func: Function, *args: Any, **kwargs: Any) -> None:
        """Register ``func(self, *args, **kwargs)``, called when the greenthread ends, or at once if it has ended."""
        if self.has_ended:
            func(self, *args, **kwargs)
        elif self._links is None:
            self._links = [(func, args, kwargs)]
        else:
            self._links.append((func, args, kwargs))

    def unlink(self, func: Function, *args: Any, **kwargs: Any) -> bool:
        """Remove a link. Returns: whether the link was registered."""
        found = bool(self._links) and (func, args, kwargs) in self._links  # type: ignore[operator]
        if found:
            self._links.remove((func, args, kwargs))  # type: ignore[union-attr]
        return found

    def kill(self, *throw_args: Any) -> None:
        """Raise an error, by default GreenletExit, in the greenthread; see ``greenthread.kill``."""
        kill(self, *throw_args)

    def cancel(self, *throw_args: Any) -> bool:
        """Kill the greenthread if it has not started yet. Returns: whether it had not started."""
        if throw_args and not isinstance(throw_args[0], (type, BaseException)):
            return super().cancel(*throw_args)  # Dhaga's own code cancels a dhaga with a reason
        before = not self and not self.has_ended
        cancel(self, *throw_args)
        return before

    def _end(self) -> None:
        if self._links:
            self._call_links(self._links)
        super()._end()

    def _call_links(self, links: list[Any]) -> None:
        """Call the links. A link that waits overwrites the fields that hold the outcome, so the fields are restored."""
        value, error = self._outcome = self._value, self._error
        self._error = None
        while links:
            function, args, kwargs = links.pop(0)
            try:
                function(self, *args, **kwargs)
            except BaseException as raised:  # an error of a link must not prevent the end
                if not interrupt_main(self.scheduler, raised) and not was_killed(raised):
                    logger.exception("a link of %r", self)
        self._value, self._error = value, error
        self._outcome = None

    def _start_now(self) -> None:
        if self._parent is None or not self._parent.has_ended:
            self._cancel_start()
            self.scheduler.admit(self)
        else:
            self._end_unstarted(GreenletExit())

    def _end_unstarted(self, error: BaseException) -> None:
        """Schedule the greenthread's end with an error; its function is never called."""
        self._cancel_start()
        pending_errors_of(self).append(error)
        self.scheduler.admit(self)


@functools.cache
def thread_stand_in() -> Any:
    """Return the class of thread objects. It is imported on first use, because ``threading`` is large."""
    from ._stand_in import GreenThreadStandIn

    return GreenThreadStandIn


def spawn(func: Function, *args: Any, **kwargs: Any) -> GreenThread:
    """Start a greenthread that calls a function. Parks: never."""
    scheduler = current_scheduler()
    greenthread = GreenThread(scheduler, func, args, kwargs)
    scheduler.admit(greenthread)
    return greenthread


def spawn_n(func: Function, *args: Any, **kwargs: Any) -> Any:
    """Start a greenthread whose result cannot be waited for."""
    scheduler = current_scheduler()
    greenthread = RawGreenThread(scheduler, func, args, kwargs)
    scheduler.admit(greenthread)
    return greenthread


def spawn_after(seconds: float, func: Function, *args: Any, **kwargs: Any) -> GreenThread:
    """Start a greenthread after ``seconds`` seconds; until then, ``cancel`` prevents the start."""
    scheduler = current_scheduler()
    greenthread = GreenThread(scheduler, func, args, kwargs)
    if seconds <= 0:
        scheduler.admit(greenthread)
        return greenthread
    greenthread._start_in(seconds)
    return greenthread


def spawn_after_local(seconds: float, func: Function, *args: Any, **kwargs: Any) -> GreenThread:
    """Start a greenthread after ``seconds`` seconds, unless the calling greenthread has ended by then."""
    me = getcurrent()
    greenthread = spawn_after(seconds, func, *args, **kwargs)
    greenthread._parent = me if isinstance(me, Dhaga) else None
    return greenthread


def exc_after(seconds: float | None, *throw_args: Any) -> Any:
    """Raise an error in the caller after ``seconds`` s unless the returned Timeout is cancelled. Source: deprecated."""
    from .timeout import Timeout

    return Timeout(seconds, thrown(*throw_args))


def call_after_local(seconds: float, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function on the hub after ``seconds`` seconds, unless the caller has ended. Source: deprecated."""
    from .hubs import get_hub

    return get_hub().schedule_call_local(seconds, function, *args, **kwargs)


def call_after_global(seconds: float, function: Function, *args: Any, **kwargs: Any) -> Any:
    """Call a function on the hub, where it must not wait, after ``seconds`` seconds. Source: deprecated."""
    from .hubs import get_hub

    return get_hub().schedule_call_global(seconds, function, *args, **kwargs)


call_after = call_after_local


def sleep(seconds: float = 0) -> None:
    """Sleep for ``seconds`` seconds; with 0, yield once, also to greenthreads with ready sockets. Parks: meanwhile."""
    if seconds > 0:
        sleep_(seconds)
        return
    me = current()
    poller = me.scheduler.poller
    if poller.watchers:
        poller.poll()
    sleep_(0)
    if me.pending_errors:
        me.prepare_park("sleep")  # raises a kill or a Timeout that came during the yield


def kill(g: Any, *throw_args: Any) -> None:
    """Raise an error at a greenthread's wait: GreenletExit, a given error, or a result of ``sys.exc_info``.

    An unstarted greenthread never runs. Parks: once, so that the error is raised before ``kill`` returns.
    """
    waiter = waiter_of(g)
    if getattr(waiter, "has_ended", False):
        return
    error = thrown(*throw_args)
    me = current() if not isinstance(getcurrent(), Dhaga) else getcurrent()
    if waiter is me:
        raise error
    raise_in(waiter, error)
    sleep(0)


def raise_in(waiter: Any, error: BaseException) -> None:
    """Raise an error at the current or next park of a greenthread or main code. An unstarted greenthread never runs."""
    if isinstance(waiter, GreenThread) and waiter._to_start is not None:
        waiter._end_unstarted(error)
    elif not getattr(waiter, "has_ended", False):
        waiter.scheduler.call(waiter.cancel_with, error)


def cancel(g: Any, *throw_args: Any) -> None:
    """Kill a greenthread that has not started yet; no-op for any other greenthread."""
    if not g:
        kill(g, *throw_args)


def was_killed(error: BaseException | None) -> bool:
    """Return whether an error means that the greenthread was killed or cancelled."""
    return isinstance(error, (GreenletExit, Cancelled))


hooks.left_at_exit.append(lambda dhaga: isinstance(dhaga, (GreenThread, RawGreenThread)))
