"""Instrumentation: calls observers at each switch, wake and preemption, for the trace and the accounting of CPU time.

The package greenlet has one trace function per OS thread (``settrace``), but there are several observers.
``ThreadObservers`` calls all of them, and passes each event to a previous trace function, such as a debugger's. Only a
thread itself may set its trace function and change its list of observers. Therefore, ``observe`` and ``unobserve`` use
``Scheduler.call`` to run in that thread. Observers of all schedulers (``observe_all``) are also installed in later
schedulers. The kernel reports wakes through ``hooks.on_wake`` in the waker's thread, and preemptions through
``hooks.on_preemption``. Without observers, all hooks are None. A forked child starts without observers, because the
observers' users are in the parent.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import greenlet

from .._kernel import hooks, originals
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.run.attachment import schedulers
from .._kernel.run.scheduler import Scheduler

Observer = Callable[[str, tuple[Any, Any]], object]
"""A function that is called as ``observer(event, (origin, target))`` after a switch. Its errors are raised in
``target``.
"""


@refuse_async_with()
class StopHandle:
    """A tool that runs until ``stop()`` or the end of its ``with`` block: a trace, a watchdog, an inspector, a page."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the tool; no-op if the tool is stopped."""
        raise NotImplementedError


# ---- switches


class ThreadObservers:
    """The observers of one OS thread, and the trace function that another tool has installed in the thread."""

    def __init__(self) -> None:
        self.foreign = greenlet.gettrace()
        self.observers: list[tuple[Scheduler, Observer]] = []

    def install(self) -> None:
        """Set this thread's greenlet trace function, which calls each observer once per switch. From: that thread."""
        foreign: Any = self.foreign
        called: list[Any] = [*dict.fromkeys(observer for _, observer in self.observers)]
        called += [foreign] if foreign is not None else []
        greenlet.settrace(call_each(called) if len(called) > 1 else called[0] if called else None)


def call_each(observers: list[Observer]) -> Observer:
    def observer(event: str, between: tuple[Any, Any]) -> None:
        for each in observers:
            each(event, between)

    return observer


by_thread: dict[int, ThreadObservers] = {}
"""The observers of each OS thread, by the thread's ident. Several schedulers may share a thread."""

global_observers: list[Observer] = []
"""Observers of all schedulers, including schedulers that start later."""

hubs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The hub of each observed scheduler, mapped to the scheduler's name."""


def observe(scheduler: Scheduler, observer: Observer) -> None:
    """Register ``observer`` for each switch of a scheduler. The calls may begin a little later. From: any thread."""
    scheduler.call(add_here, scheduler, observer)


def unobserve(scheduler: Scheduler, observer: Observer) -> None:
    """Remove an observer of a scheduler. From: any thread."""
    scheduler.call(remove_here, scheduler, observer)


def observe_all(observer: Observer) -> None:
    """Register ``observer`` for the switches of all schedulers, including later schedulers. From: any thread."""
    global_observers.append(observer)
    for scheduler in list(schedulers):
        observe(scheduler, observer)


def unobserve_all(observer: Observer) -> None:
    """Remove an observer of all schedulers. From: any thread."""
    global_observers.remove(observer)
    for scheduler in list(schedulers):
        unobserve(scheduler, observer)


def add_here(scheduler: Scheduler, observer: Observer) -> None:
    hubs[scheduler.hub] = scheduler.name
    here = by_thread.setdefault(originals.get_ident(), ThreadObservers())
    if (scheduler, observer) not in here.observers:
        here.observers.append((scheduler, observer))
        here.install()


def remove_here(scheduler: Scheduler, observer: Observer) -> None:
    keep_only(lambda entry: entry != (scheduler, observer))


def keep_only(kept: Callable[[tuple[Scheduler, Observer]], bool]) -> None:
    """Remove this thread's observers for which ``kept`` is false."""
    ident = originals.get_ident()
    here = by_thread.get(ident)
    if here is not None:
        here.observers = list(filter(kept, here.observers))
        here.install()
        if not here.observers:
            del by_thread[ident]


def on_scheduler(scheduler: Scheduler, begins: bool) -> None:
    """Add the global observers to a starting scheduler; remove all observers of an ending scheduler.

    After the end, the OS thread may run other schedulers, whose observers stay. If no observer is left, the thread's
    previous trace function is restored.
    """
    if begins:
        for observer in global_observers:
            add_here(scheduler, observer)
    elif scheduler.thread_ident == originals.get_ident():
        keep_only(lambda entry: entry[0] is not scheduler)
    else:  # the scheduler's thread has ended
        by_thread.pop(scheduler.thread_ident, None)


hooks.on_scheduler.append(on_scheduler)

# ---- wakes and preemptions


class HookObservers:
    """The observers of one kernel hook. While there is no observer, the hook is None."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.observers: list[Callable[..., object]] = []

    def call(self, *what: object) -> None:
        for observer in self.observers:
            observer(*what)

    def add(self, observer: Callable[..., object]) -> None:
        """Register ``observer``, which the kernel calls with the arguments of the hook."""
        self.observers.append(observer)
        setattr(hooks, self.hook, self.call)

    def remove(self, observer: Callable[..., object]) -> None:
        """Remove an observer that ``add`` registered."""
        self.observers.remove(observer)
        if not self.observers:
            setattr(hooks, self.hook, None)

    def clear(self) -> None:
        self.observers.clear()
        setattr(hooks, self.hook, None)


wakes = HookObservers("on_wake")
"""Observers that are called with the waiter before each wake of a dhaga or of main code, in the waker's thread."""

preemptions = HookObservers("on_preemption")
"""Observers that are called with the waiter and the line before the switch that ends an overlong turn."""


# ---- fork


def after_fork_in_child() -> None:
    if by_thread:
        greenlet.settrace(None)
        by_thread.clear()
    global_observers.clear()
    wakes.clear()
    preemptions.clear()


hooks.in_forked_child.append(after_fork_in_child)
