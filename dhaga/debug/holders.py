"""Who holds what somebody waits for, and circles of such waits."""

from __future__ import annotations

from collections.abc import Iterable

from dhaga.kernel.microthread import Dhaga, Main
from dhaga.kernel.osthread import OSThread
from dhaga.kernel.waiter import Waiter
from dhaga.kernel.waiting import name_of
from dhaga.scope import Scope


def holders(waiter: Waiter) -> list[object]:
    """Return those whose doing would end a wait: who holds the lock, the dhaga that is joined, a scope's children.

    Of a queue or an event that could be anybody: then none.
    """
    thing = waiter.waits_on
    if isinstance(thing, Dhaga):
        return [thing]
    if isinstance(thing, Scope):
        return list(thing.children)
    holder = getattr(thing, "holder", None)
    return [] if holder is None else [holder]


def name(holder: object) -> str:
    """Name a dhaga, or the main code or plain thread that a greenlet or a waiter stands for."""
    return str(name_of(holder))


def circles(waiters: Iterable[Waiter]) -> list[list[Waiter]]:
    """Return the circles in which each waits for what the next one holds: none of them can ever go on by itself.

    Each circle once, begun with the first of ``waiters`` that is part of it.
    """
    everybody = list(waiters)
    by_greenlet = {id(greenlet_of(waiter)): waiter for waiter in everybody}
    after = {}
    for waiter in everybody:
        greenlets = (id(greenlet_of(holder)) for holder in holders(waiter))
        after[id(waiter)] = [by_greenlet[each] for each in greenlets if each in by_greenlet]
    found: list[list[Waiter]] = []
    done: set[int] = set()
    for waiter in everybody:
        if id(waiter) not in done:
            found += _circles_from(waiter, after, done)
    return found


def greenlet_of(holder: object) -> object:
    """Return what tells two holders apart: a lock knows main code by its greenlet, a queue of waiters by its waiter."""
    return holder.greenlet if isinstance(holder, (Main, OSThread)) else holder


def _circles_from(first: Waiter, after: dict[int, list[Waiter]], done: set[int]) -> list[list[Waiter]]:
    """Walk along all waits from one; ``done``: whose waits need no second look."""
    found = []
    path: list[Waiter] = []
    on_path: dict[int, int] = {}
    steps: list[list[Waiter]] = [[first]]
    while steps:
        if not steps[-1]:
            steps.pop()
            if path:
                del on_path[id(path.pop())]
            continue
        following = steps[-1].pop()
        place = on_path.get(id(following))
        if place is not None:
            found.append(path[place:])
        elif id(following) not in done:
            done.add(id(following))
            on_path[id(following)] = len(path)
            path.append(following)
            steps.append(list(after[id(following)]))
    return found


def scopes(waiter: Waiter) -> list[Scope]:
    """Return the scopes that a waiter is in, the outermost first: whose child it is, and whose blocks it runs."""
    innermost = getattr(waiter.pending, "scopes", None) or [getattr(waiter, "scope", None)]
    found = []
    scope: Scope | None = innermost[-1]
    while scope is not None:
        found.append(scope)
        scope = scope.parent
    return found[::-1]
