"""Instrumentation: callbacks at each switch, wake and preemption, for the trace and the CPU accounting.

greenlet has one trace function per OS thread (``settrace``), but there are several observers: ``ThreadObservers``
multiplexes it, and passes each event on to a previous trace function, such as a debugger's. Only the thread itself may
set its function and change its lists: ``observe`` and ``unobserve`` run there, through ``Scheduler.call``. Observers of
all schedulers (``observe_all``) are also installed in later schedulers. Wakes come through ``hooks.on_wake``, in the
waker's thread, and preemptions through ``hooks.on_preemption``. Without observers all hooks are empty. A forked child
starts without observers, because their users are in the parent.
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
"""Called as ``observer(event, (origin, target))`` after a greenlet switch; an error in it would surface in ``target``.
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
        """Stop the tool; a second call is a no-op."""
        raise NotImplementedError


# ---- switches


class ThreadObservers:
    """The switch observers of one OS thread, and the trace function that another tool had installed there."""

    def __init__(self) -> None:
        self.foreign = greenlet.gettrace()
        self.observers: list[tuple[Scheduler, Observer]] = []

    def install(self) -> None:
        """Install the current observers as this thread's greenlet trace function, each once. From: that thread."""
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
"""The observers of each OS thread, by its ident. Several schedulers may share a thread."""

global_observers: list[Observer] = []
"""Observers of all schedulers, including later ones."""

hubs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The hub of each observed scheduler, with the scheduler's name."""


def observe(scheduler: Scheduler, observer: Observer) -> None:
    """Call ``observer`` at each switch of a scheduler; it begins soon, in the scheduler's thread. From: any thread."""
    scheduler.call(add_here, scheduler, observer)


def unobserve(scheduler: Scheduler, observer: Observer) -> None:
    """Undo ``observe``. From: any thread."""
    scheduler.call(remove_here, scheduler, observer)


def observe_all(observer: Observer) -> None:
    """Call ``observer`` at the switches of all schedulers, including later ones. From: any thread."""
    global_observers.append(observer)
    for scheduler in list(schedulers):
        observe(scheduler, observer)


def unobserve_all(observer: Observer) -> None:
    """Undo ``observe_all``. From: any thread."""
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
    """Remove this thread's observers that are not ``kept``."""
    ident = originals.get_ident()
    here = by_thread.get(ident)
    if here is not None:
        here.observers = list(filter(kept, here.observers))
        here.install()
        if not here.observers:
            del by_thread[ident]


def on_scheduler(scheduler: Scheduler, begins: bool) -> None:
    """Add the global observers to a starting scheduler; remove all observers of an ending one.

    Its OS thread may run other schedulers, or continue without one, so the thread's own trace function is restored.
    """
    if begins:
        for observer in global_observers:
            add_here(scheduler, observer)
    elif scheduler.thread_ident == originals.get_ident():
        keep_only(lambda entry: entry[0] is not scheduler)
    else:  # its thread has ended
        by_thread.pop(scheduler.thread_ident, None)


hooks.on_scheduler.append(on_scheduler)

# ---- wakes and preemptions


class HookObservers:
    """The observers behind one hook of the kernel, which is None while there is none."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.observers: list[Callable[..., object]] = []

    def call(self, *what: object) -> None:
        for observer in self.observers:
            observer(*what)

    def add(self, observer: Callable[..., object]) -> None:
        """Call ``observer`` with the arguments of the hook, where the kernel calls it."""
        self.observers.append(observer)
        setattr(hooks, self.hook, self.call)

    def remove(self, observer: Callable[..., object]) -> None:
        """Undo ``add``."""
        self.observers.remove(observer)
        if not self.observers:
            setattr(hooks, self.hook, None)

    def clear(self) -> None:
        self.observers.clear()
        setattr(hooks, self.hook, None)


wakes = HookObservers("on_wake")
"""Called with the waiter before each wake of a dhaga or of main code, in the thread of the waker."""

preemptions = HookObservers("on_preemption")
"""Called in the waiter's thread before the switch that ends an overlong turn, with the waiter and the line."""


# ---- fork


def after_fork_in_child() -> None:
    if by_thread:
        greenlet.settrace(None)
        by_thread.clear()
    global_observers.clear()
    wakes.clear()
    preemptions.clear()


hooks.in_forked_child.append(after_fork_in_child)
