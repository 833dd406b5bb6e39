"""The loop of a hub (``gevent.get_hub().loop``): timers, watchers of fds, and calls from other threads."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any

from greenlet import getcurrent

from ..._kernel.api import sleep, spawn
from ..._kernel.run.entries import HubCall
from ..._kernel.run.scheduler import Scheduler
from ...select import select

READ, WRITE = 1, 2


class Loop:
    """A factory of watchers. Callbacks of fd watchers run in greenlets; all others run on the hub, and cannot park."""

    MAXPRI = MINPRI = 0

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = weakref.ref(scheduler)  # weak, because ``loops`` must not keep its keys alive

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that owns this loop."""
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
        """Return a watcher that fires after ``after`` seconds and then every ``repeat`` seconds (0: only once)."""
        return Timer(self, after, repeat)

    def io(self, fd: int, events: int, ref: bool = True, priority: Any = None) -> FdWatcher:
        """Return a watcher that fires when the fd is ready. ``events``: 1 to read, 2 to write, 3 for both."""
        return FdWatcher(self, fd, events)

    def async_(self, ref: bool = True, priority: Any = None) -> Async:
        """Return a watcher that fires when any OS thread calls its ``send``."""
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
    """Append a call to the run queue of the call's scheduler. From: any OS thread."""
    scheduler = call.scheduler
    scheduler.run_queue.append(call)
    if scheduler.asleep:
        scheduler.wake_loop()


def report(scheduler: Scheduler, context: Any, error: BaseException) -> None:
    """Pass an uncaught error to ``handle_error`` of the scheduler's hub."""
    hub_of(scheduler).handle_error(context, type(error), error, error.__traceback__)


hub_class: Any = None
"""The class Hub; ``hub.py`` sets it."""

hubs: weakref.WeakKeyDictionary[Scheduler, Any] = weakref.WeakKeyDictionary()
"""The gevent hub of each scheduler that has one."""


def hub_of(scheduler: Scheduler) -> Any:
    """Return the hub of a scheduler; the first call creates it."""
    hub = hubs.get(scheduler)
    if hub is None:
        hub = hubs[scheduler] = hub_class(scheduler)
    return hub


loops: weakref.WeakKeyDictionary[Scheduler, Loop] = weakref.WeakKeyDictionary()


def loop_of(scheduler: Scheduler) -> Loop:
    """Return the loop of a scheduler; repeated calls return the same loop."""
    loop = loops.get(scheduler)
    if loop is None:
        loop = loops[scheduler] = Loop(scheduler)
    return loop


class Callback(HubCall):
    """One call on the hub, in the order of the run queue; ``stop`` cancels it."""

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
    """An object that calls its callback at each event between ``start`` and ``stop``."""

    callback: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    @property
    def active(self) -> bool:
        """Whether the watcher is started."""
        return self.callback is not None

    pending = False

    def start(self, callback: Callable[..., Any], *args: Any) -> None:
        """Start watching: each event then calls ``callback(*args)``."""
        if not callable(callback):
            raise TypeError(f"Expected callable, not {callback!r}")
        self.callback, self.args = callback, args
        self._arm()

    def stop(self) -> None:
        """Stop watching."""
        self.callback = None
        self._disarm()

    def close(self) -> None:
        """Stop watching; the watcher is not used again."""
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
    """Watcher that fires once, or repeatedly if ``repeat`` is not 0."""

    def __init__(self, loop: Loop, after: float, repeat: float) -> None:
        super().__init__(loop)
        self.after: float = after
        self.repeat: float = repeat
        self._handle: Any = None

    def start(self, callback: Callable[..., Any], *args: Any, update: Any = None) -> None:
        super().start(callback, *args)

    def again(self, callback: Callable[..., Any], *args: Any, update: Any = None) -> None:
        """Restart the timer; it first fires after ``repeat`` seconds. If ``repeat`` is 0, only stop the timer."""
        self.stop()
        if self.repeat:
            self.callback = callback
            self.args: tuple[Any, ...] = args
            self._arm(self.repeat)

    def _arm(self, seconds: float | None = None) -> None:
        self._disarm()
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
    """Watcher that fires while an fd is ready."""

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
                sleep(0)  # the greenlet that the callback has woken reads the bytes before the next select()

    def _disarm(self) -> None:
        dhagas, self._dhagas = self._dhagas, []
        for each in dhagas:
            if each is not getcurrent():
                each.cancel()


class Async(Watcher):
    """Watcher that fires when any OS thread calls ``send``."""

    def send(self) -> None:
        """Fire the watcher on the hub. From: any OS thread, or a signal handler."""
        self.loop.scheduler.loop.call_soon_threadsafe(self._fire)

    send_ignoring_arg = send
