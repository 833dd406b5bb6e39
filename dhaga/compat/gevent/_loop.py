"""The loop of a hub (``gevent.get_hub().loop``): timers, watchers of fds, and calls from other threads."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any

from greenlet import getcurrent

from ..._kernel.api import sleep, spawn
from ..._kernel.run.entries import HubCall
from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.scheduler import Scheduler
from ...select import select

READ, WRITE = 1, 2

logger = logging.getLogger("dhaga")


class Loop:
    """Makes watchers. Their callbacks are called on the hub and cannot park; those of an fd, in a greenlet."""

    MAXPRI = MINPRI = 0

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = weakref.ref(scheduler)  # the key of this loop

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler whose loop it is."""
        scheduler = self._scheduler()
        if scheduler is None:
            raise RuntimeError("the scheduler of this loop has ended")
        return scheduler

    def now(self) -> float:
        """Return the time of the loop's clock, in seconds."""
        return self.scheduler.clock()

    def update_now(self) -> None: ...

    update = update_now

    def timer(self, after: float, repeat: float = 0.0, ref: bool = True, priority: Any = None) -> Timer:
        """Return a watcher that fires after ``after`` seconds, and then every ``repeat`` seconds."""
        return Timer(self, after, repeat)

    def io(self, fd: int, events: int, ref: bool = True, priority: Any = None) -> FdWatcher:
        """Return a watcher that fires when the fd is ready: 1 to read, 2 to write, 3 for both."""
        return FdWatcher(self, fd, events)

    def async_(self, ref: bool = True, priority: Any = None) -> Async:
        """Return a watcher that fires when another OS thread calls its ``send``."""
        return Async(self)

    def run_callback(self, callback: Callable[..., Any], *args: Any) -> Callback:
        """Schedule a call on the hub."""
        return Callback(self, callback, args)

    run_callback_threadsafe = run_callback

    def _no(self, *_: object, **__: object) -> Any:
        raise NotImplementedError(
            "libev's watchers of processes, signals and files do not exist here:\nuse dhaga.subprocess, dhaga.signal "
            "or an asyncio library"
        )

    child: Any = _no
    signal: Any = _no
    stat: Any = _no
    prepare: Any = _no
    check: Any = _no
    fork: Any = _no
    idle: Any = _no


def call_on_hub(call: HubCall) -> None:
    """Append a call to its scheduler's run queue. From: any OS thread."""
    scheduler = call.scheduler
    scheduler.run_queue.append(call)
    if scheduler.asleep:
        scheduler.wake_loop()


def report(scheduler: Scheduler, context: Any, error: BaseException) -> None:
    """Pass an uncaught error to ``handle_error`` of a scheduler's hub, if it has one."""
    hub = hubs.get(scheduler)
    if hub is not None:
        hub.handle_error(context, type(error), error, error.__traceback__)
    elif isinstance(context, Dhaga):
        Dhaga._report(context, error)
    else:
        logger.error("uncaught error of %r", context, exc_info=error)


hubs: weakref.WeakKeyDictionary[Scheduler, Any] = weakref.WeakKeyDictionary()
"""All hubs, by scheduler (``hub.py``)."""

loops: weakref.WeakKeyDictionary[Scheduler, Loop] = weakref.WeakKeyDictionary()


def loop_of(scheduler: Scheduler) -> Loop:
    """Return the loop of a scheduler, the same each time."""
    loop = loops.get(scheduler)
    if loop is None:
        loop = loops[scheduler] = Loop(scheduler)
    return loop


class Callback(HubCall):
    """One call on the hub, at its place in the run queue; ``stop`` cancels it."""

    def __init__(self, loop: Loop, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.callback: Callable[..., Any] | None = callback
        self.args = args
        self.scheduler: Scheduler = loop.scheduler
        call_on_hub(self)

    def make_call(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            try:
                callback(*self.args)
            except BaseException as error:
                report(self.scheduler, self, error)

    def stop(self) -> None:
        """Cancel the call."""
        self.callback = None

    close = stop

    @property
    def pending(self) -> bool:
        return self.callback is not None


class Watcher:
    """Calls its callback at each event, from ``start`` to ``stop``."""

    callback: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    @property
    def active(self) -> bool:
        """Whether it is started."""
        return self.callback is not None

    pending = False

    def start(self, callback: Callable[..., Any], *args: Any) -> None:
        """Start watching: each event calls ``callback(*args)``."""
        if not callable(callback):
            raise TypeError(f"Expected callable, not {callback!r}")
        self.callback, self.args = callback, args
        self._arm()

    def stop(self) -> None:
        """Stop watching."""
        self.callback = None
        self._disarm()

    def close(self) -> None:
        """Stop watching for good."""
        self.stop()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _arm(self) -> None: ...

    def _disarm(self) -> None: ...

    def _fire(self) -> None:
        callback = self.callback
        if callback is not None:
            self._call(callback, self.args)

    def _call(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            callback(*args)
        except BaseException as error:
            report(self.loop.scheduler, self, error)


class Timer(Watcher):
    """Fires once, or again and again."""

    def __init__(self, loop: Loop, after: float, repeat: float) -> None:
        super().__init__(loop)
        self.after: float = after
        self.repeat: float = repeat
        self._handle: Any = None

    def start(self, callback: Callable[..., Any], *args: Any, update: Any = None) -> None:
        super().start(callback, *args)

    def again(self, callback: Callable[..., Any], *args: Any, update: Any = None) -> None:
        """Restart with the interval of the repeats."""
        self._disarm()
        self.callback = callback
        self.args: tuple[Any, ...] = args
        self._arm(self.repeat)

    def _arm(self, seconds: float | None = None) -> None:
        seconds = self.after if seconds is None else seconds
        self._handle = self.loop.scheduler.loop.call_later(max(0.0, seconds), self._tick, context=Context())

    def _tick(self) -> None:
        callback, args = self.callback, self.args
        if self.repeat and callback is not None:
            self._arm(self.repeat)
        else:
            self.callback = None
        if callback is not None:
            self._call(callback, args)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class FdWatcher(Watcher):
    """Fires while an fd is ready."""

    def __init__(self, loop: Loop, fd: int, events: int) -> None:
        if fd < 0:
            raise ValueError(f"fd must be non-negative: {fd}")
        if events & ~(READ | WRITE):
            raise ValueError(f"illegal event mask: {events}")
        super().__init__(loop)
        self.fd: int = fd
        self.events: int = events
        self._dhagas: list[Any] = []
        self.pass_events: bool = False

    def start(self, callback: Callable[..., Any], *args: Any, pass_events: bool = False) -> None:
        self.pass_events = pass_events
        super().start(callback, *args)

    def _arm(self) -> None:
        self._disarm()
        events = [event for event in (READ, WRITE) if self.events & event]
        self._dhagas = [spawn(self._watch, event, daemon=True, context=Context()) for event in events]

    def _watch(self, event: int) -> None:
        fds = [self.fd]
        own = self._dhagas
        while self._dhagas is own:
            select(fds if event == READ else [], fds if event == WRITE else [], [])
            if self._dhagas is own and self.callback is not None:
                self.callback(*((event,) if self.pass_events else ()), *self.args)
                sleep(0)  # the greenlet that the callback woke reads the bytes before the next look

    def _disarm(self) -> None:
        dhagas, self._dhagas = self._dhagas, []
        for each in dhagas:
            if each is not getcurrent():
                each.cancel()


class Async(Watcher):
    """Fires when any OS thread sends."""

    def send(self) -> None:
        """Fire, on the hub. From: any OS thread, a signal handler."""
        self.loop.scheduler.loop.call_soon_threadsafe(self._fire)

    send_ignoring_arg = send
