"""eventlet's hub: the parts that programs use, on the timers and the poller of the calling thread's scheduler."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from ...._kernel.api import current
from ...._kernel.process.current_scheduler import current_scheduler
from ...._kernel.run.entries import HubCall
from ...._kernel.run.microthread import Dhaga
from ...._kernel.run.uncaught import call_excepthook, interrupt_main
from ....select import select
from .. import _settings
from ..timeout import Timeout

BUILTIN_HUBS = frozenset({"asyncio", "epolls", "kqueue", "poll", "selects"})


class HubError(Exception):
    """The error that eventlet raises if no hub is usable; it is never raised here."""


class IOClosed(OSError):
    """Raised in a wait for a file descriptor that ``notify_close`` has declared closed."""


waiting: dict[int, list[Any]] = {}
"""For each file descriptor, the waiters in ``trampoline``."""


def trampoline(
    fd: Any,
    read: Any = None,
    write: Any = None,
    timeout: float | None = None,
    timeout_exc: Any = Timeout,
    mark_as_closed: Any = None,
) -> None:
    """Wait until a file descriptor is readable or writable.

    Parks: until then. Raises: ``timeout_exc`` after ``timeout`` seconds, IOClosed.
    """
    if bool(read) is bool(write):
        raise RuntimeError("trampoline() waits for reading or for writing: pass one of read=True and write=True")
    number: int = fd if isinstance(fd, int) else fd.fileno()
    me = current()
    waiting.setdefault(number, []).append(me)
    try:
        found = select([number] if read else [], [number] if write else [], [], timeout)
    finally:
        waiting[number].remove(me)
        if not waiting[number]:
            del waiting[number]
    if not (found[0] or found[1]):
        raise timeout_exc() if isinstance(timeout_exc, type) else timeout_exc


def notify_close(fd: int) -> None:
    """Raise IOClosed in all waiters for a file descriptor. Parks: never."""
    for waiter in list(waiting.get(fd, ())):
        waiter.cancel_with(IOClosed(errno.EBADF, "Operation on closed file"))


notify_opened = notify_close


class HubTimer:
    """One scheduled call on the hub."""

    def __init__(self, seconds: float, function: Callable[..., Any], args: Any, kwargs: Any, owner: Any) -> None:
        self.call = function, args, kwargs
        self.owner = owner
        self.called: bool = False
        self._scheduler = scheduler = current_scheduler()
        if seconds > 0:
            self._entry: Any = scheduler.expire_after(seconds, self)
        else:
            self._entry = None
            scheduler.run_queue.append(TurnOnHub(scheduler, self))

    @property
    def pending(self) -> bool:
        """Whether the call is still scheduled."""
        return not self.called

    def _expire(self) -> None:
        """Make the call. From: the hub."""
        if not self.called:
            self.called = True
            if self.owner is None or not self.owner.has_ended:
                function, args, kwargs = self.call
                try:
                    function(*args, **kwargs)
                except BaseException as error:  # an error that left this method would end the lap of the scheduler
                    self._report(error)

    def _report(self, error: BaseException) -> None:
        """Pass a SystemExit or KeyboardInterrupt to the main code, and any other error to ``dhaga.excepthook``."""
        if not interrupt_main(self._scheduler, error) and _settings.hub_exceptions:
            call_excepthook(None, error)

    def cancel(self) -> None:
        """Cancel the call. From: any thread; in another thread, the timer's entry stays until it expires."""
        self.called = True
        if self._entry is not None and current_scheduler() is self._scheduler:
            self._scheduler.timers.discard(self._entry)


class TurnOnHub(HubCall):
    """Run-queue entry of a timer of 0 seconds. All greenthreads that are already runnable run before it."""

    __slots__ = ("scheduler", "timer")

    def __init__(self, scheduler: Any, timer: HubTimer) -> None:
        self.scheduler = scheduler
        self.timer = timer

    def make_call(self) -> None:
        self.timer._expire()


class Listener:
    """A wait for a file descriptor, in the form that ``get_readers`` returns."""

    def __init__(self, evtype: str, greenlet: Any) -> None:
        self.evtype = evtype
        self.greenlet = greenlet
        number = str(greenlet.reason).rpartition(" ")[2]
        self.fileno = int(number) if number.isdigit() else -1

    def __repr__(self) -> str:
        return f"<Listener {self.evtype} fd {self.fileno} of {self.greenlet!r}>"


class Hub:
    """The hub that ``get_hub()`` returns."""

    READ, WRITE = "read", "write"

    @property
    def loop(self) -> Any:
        """The asyncio loop of the thread, which serves all waits."""
        return current_scheduler().loop

    def schedule_call_global(self, seconds: float, cb: Callable[..., Any], *args: Any, **kwargs: Any) -> HubTimer:
        """Call a function on the hub, where it must not wait, after ``seconds`` seconds."""
        return HubTimer(seconds, cb, args, kwargs, None)

    def schedule_call_local(self, seconds: float, cb: Callable[..., Any], *args: Any, **kwargs: Any) -> HubTimer:
        """Call a function on the hub after ``seconds`` seconds, unless the caller has ended by then."""
        me = getcurrent()
        return HubTimer(seconds, cb, args, kwargs, me if isinstance(me, Dhaga) else None)

    @property
    def clock(self) -> Callable[[], float]:
        """The scheduler's clock: ``time.monotonic``, or the virtual clock of a test."""
        return current_scheduler().clock

    @property
    def debug_exceptions(self) -> bool:
        """Whether errors that end greenthreads are reported; see ``eventlet.debug.hub_exceptions``."""
        return _settings.hub_exceptions

    @debug_exceptions.setter
    def debug_exceptions(self, on: bool) -> None:
        _settings.hub_exceptions = on

    def get_timers_count(self) -> int:
        """Return the number of pending deadlines."""
        return len(current_scheduler().timers)

    def get_readers(self) -> list[Any]:
        """Return a Listener for each greenthread that waits to read."""
        return listeners(self.READ)

    def get_writers(self) -> list[Any]:
        """Return a Listener for each greenthread that waits to write."""
        return listeners(self.WRITE)

    def notify_close(self, fd: int) -> None:
        """Raise IOClosed in all waiters for a file descriptor."""
        notify_close(fd)

    def _no(self, *_: object, **__: object) -> Any:
        raise NotImplementedError(
            "greenlets cannot be switched by hand here: park with dhaga.park(reason), wake with "
            "dhaga.current().wake(value);\nto wait for a file descriptor: trampoline(), or dhaga.select"
        )

    switch: Any = _no
    add: Any = _no
    remove: Any = _no
    run: Any = _no
    abort: Any = _no
    ensure_greenlet: Any = _no


def listeners(way: str) -> list[Listener]:
    """Return the waits for file descriptors of one kind. ``way``: "read" or "write"."""
    return [Listener(way, each) for each in current_scheduler().in_order() if (each.reason or "").startswith(way)]


BaseHub = Hub
READ, WRITE = Hub.READ, Hub.WRITE
hub = Hub()


def is_available() -> bool:
    """Return True, because every hub name, such as ``eventlet.hubs.epolls``, stands for this module."""
    return True


def get_hub() -> Hub:
    """Return the hub of the calling thread's scheduler."""
    return hub


def get_default_hub() -> Any:
    """Return this module's class Hub, which is the only kind of hub."""
    return Hub


def use_hub(mod: Any = None) -> None:
    """Accept one of eventlet's hubs, without effect. Raises: NotImplementedError for any other hub.

    ``mod``: a name such as ``"poll"`` or ``"eventlet.hubs.poll"``, optionally with ``":Hub"``; or the hub's class or
    module.
    """
    if isinstance(mod, str):
        place, _, kind = mod.partition(":")
        known = place.removeprefix("eventlet.hubs.") in BUILTIN_HUBS and kind in ("", "Hub")
    else:
        known = mod in (None, Hub, sys.modules[__name__])
    if not known:
        raise NotImplementedError(
            f"{mod!r} cannot be the hub: all waits run on the asyncio loop of the thread;\nfor a loop of your own: "
            "dhaga.Scheduler(loop=loop)"
        )
