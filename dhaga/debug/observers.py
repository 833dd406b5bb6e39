"""Observers: who is told of each switch and each wake. greenlet has room for one a thread; here is room for all.

While nobody is told of them, nothing is called.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

import greenlet

from dhaga.kernel import originals
from dhaga.kernel.scheduler import Scheduler, followers, schedulers
from dhaga.kernel.waiter import Waiter

Observer = Callable[[str, tuple[Any, Any]], object]
"""Called as ``observer(event, (origin, target))``, where greenlet switches. What it raises would come out there."""

# ---- switches


class Switches:
    """Who is told of the switches in one OS thread; what another tool has set there, a debugger, is told on."""

    def __init__(self) -> None:
        self.former = greenlet.gettrace()
        self.observers: list[tuple[Scheduler, Observer]] = []

    def tell(self) -> None:
        """Have greenlet call those who are there now, each once; from their thread."""
        former: Any = self.former
        told: list[Any] = [*dict.fromkeys(observer for _, observer in self.observers)]
        told += [former] if former is not None else []
        greenlet.settrace(each_of(told) if len(told) > 1 else told[0] if told else None)


def each_of(observers: list[Observer]) -> Observer:
    def tell_all(event: str, between: tuple[Any, Any]) -> None:
        for tell in observers:
            tell(event, between)

    return tell_all


observed: dict[int, Switches] = {}
"""By the ident of the OS thread: several schedulers may share one."""

everywhere: list[Observer] = []
"""Who is told of the switches of schedulers that are still to come, too."""

hubs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Whose hub it is, of each scheduler that was observed."""


def observe(scheduler: Scheduler, observer: Observer) -> None:
    """Tell somebody of the switches of a scheduler, from now on, or as soon as it comes to it. From: any thread."""
    scheduler.call(add, scheduler, observer)


def leave(scheduler: Scheduler, observer: Observer) -> None:
    """Tell no more of them. From: any thread."""
    scheduler.call(remove, scheduler, observer)


def observe_all(observer: Observer) -> None:
    """Tell somebody of the switches of all schedulers, of those to come, too. From: any thread."""
    everywhere.append(observer)
    for scheduler in list(schedulers):
        observe(scheduler, observer)


def leave_all(observer: Observer) -> None:
    """Tell no more of them. From: any thread."""
    everywhere.remove(observer)
    for scheduler in list(schedulers):
        leave(scheduler, observer)


def add(scheduler: Scheduler, observer: Observer) -> None:
    hubs[scheduler.hub] = scheduler.name
    switches = observed.setdefault(originals.get_ident(), Switches())
    if (scheduler, observer) not in switches.observers:
        switches.observers.append((scheduler, observer))
        switches.tell()


def remove(scheduler: Scheduler, observer: Observer) -> None:
    keep_only(lambda entry: entry != (scheduler, observer))


def keep_only(stays: Callable[[tuple[Scheduler, Observer]], bool]) -> None:
    """Tell no more those, in this thread, who do not stay."""
    ident = originals.get_ident()
    switches = observed.get(ident)
    if switches is not None:
        switches.observers = list(filter(stays, switches.observers))
        switches.tell()
        if not switches.observers:
            del observed[ident]


def follow(scheduler: Scheduler, begins: bool) -> None:
    """Take part in the begin and the end of a scheduler: its thread may have others, or go on without any."""
    if begins:
        for observer in everywhere:
            add(scheduler, observer)
    elif scheduler.ident == originals.get_ident():
        keep_only(lambda entry: entry[0] is not scheduler)
    else:  # its thread is no more
        observed.pop(scheduler.ident, None)


followers.append(follow)

# ---- wakes

told_of_wakes: list[Callable[[Waiter], object]] = []
unpark: Any = Waiter.unpark


def telling_unpark(waiter: Waiter, value: Any = None, error: BaseException | None = None) -> bool:
    """Stand in for ``Waiter.unpark`` while somebody is told of wakes."""
    if waiter.parked:  # else it has been woken before
        for tell in told_of_wakes:
            tell(waiter)
    return unpark(waiter, value, error)  # type: ignore[no-any-return]


def observe_wakes(tell: Callable[[Waiter], object]) -> None:
    """Call ``tell(waiter)`` before each wake of a dhaga or of main code, in the thread of the waker."""
    told_of_wakes.append(tell)
    Waiter.unpark = telling_unpark  # type: ignore[assignment, method-assign]


def leave_wakes(tell: Callable[[Waiter], object]) -> None:
    """Call it no more."""
    told_of_wakes.remove(tell)
    if not told_of_wakes:
        Waiter.unpark = unpark  # type: ignore[method-assign]


def after_fork_in_child() -> None:
    """Tell nobody in a forked child: those who look are in the parent."""
    if observed:
        greenlet.settrace(None)
        observed.clear()
    everywhere.clear()
    told_of_wakes.clear()
    Waiter.unpark = unpark  # type: ignore[method-assign]


os.register_at_fork(after_in_child=after_fork_in_child)
