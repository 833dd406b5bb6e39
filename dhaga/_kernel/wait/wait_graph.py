"""The wait-for graph, and the search for its cycles. The graph connects each waiter with the holders of the object that
the waiter waits for.

A wait target with holders has a method ``_holders()``: a lock returns its owner, a joined dhaga returns itself, and a
scope returns its children. A queue or an event has no holders, because any code may put an item or set the event. A
waiter whose wait has several holders (for example, at the end of a scope) waits until all of them end. So a cycle
through any of them is a deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..stacks import stack_of

if TYPE_CHECKING:
    from .waiter import Waiter


def holders(waiter: Waiter) -> list[object]:
    """Return the holders on which a waiter's wait depends; an empty list if any code could end the wait."""
    return holders_of(waiter.waits_on)


def holders_of(thing: object) -> list[object]:
    """Return the holders of a wait target: the owner of a lock, the children of a scope."""
    name_holders: Any = getattr(thing, "_holders", None)
    return [] if name_holders is None else name_holders()


def name_of(holder: Any) -> str:
    """Return the name of a holder, which is a dhaga or the greenlet of main code or of a plain thread."""
    return str(getattr(holder, "name", "a plain thread"))


def cycles(waiters: Iterable[Waiter]) -> list[list[Waiter]]:
    """Return cycles. In a cycle each waiter waits for an object that the next waiter holds, so no waiter can continue.

    A cycle begins with the waiter that the search reaches first. If a waiter has several holders, a cycle that shares
    waiters with an earlier cycle may be left out.
    """
    all_waiters = list(waiters)
    by_greenlet = {id(greenlet_of(waiter)): waiter for waiter in all_waiters}
    after = {}
    for waiter in all_waiters:
        greenlets = (id(greenlet_of(holder)) for holder in holders(waiter))
        after[id(waiter)] = [by_greenlet[each] for each in greenlets if each in by_greenlet]
    found: list[list[Waiter]] = []
    done: set[int] = set()
    for waiter in all_waiters:
        if id(waiter) not in done:
            found += _cycles_from(waiter, after, done)
    return found


def greenlet_of(holder: object) -> object:
    """Return a holder's greenlet. (A lock stores main code as a greenlet, but a wait queue stores it as a waiter.)"""
    return getattr(holder, "own_greenlet", holder)


def _cycles_from(first: Waiter, after: dict[int, list[Waiter]], done: set[int]) -> list[list[Waiter]]:
    """Return the cycles that are reachable from a waiter, searched depth first. ``done``: the visited waiters."""
    found = []
    path: list[Waiter] = []
    on_path: dict[int, int] = {}
    # An explicit stack, because a chain of 10,000 joins would exceed the recursion limit.
    steps: list[list[Waiter]] = [[first]]
    while steps:
        if not steps[-1]:
            steps.pop()
            if path:
                del on_path[id(path.pop())]
            continue
        following = steps[-1].pop()
        position = on_path.get(id(following))
        if position is not None:
            found.append(path[position:])
        elif id(following) not in done:
            done.add(id(following))
            on_path[id(following)] = len(path)
            path.append(following)
            steps.append(list(after[id(following)]))
    return found


# ---- text


def place_of(waiter: Waiter) -> str:
    """Return the place in code outside Dhaga where a waiter is parked, as text; empty if there is no such place."""
    greenlet = getattr(waiter, "own_greenlet", waiter)
    stack = [frame for frame in stack_of(getattr(greenlet, "gr_frame", None)) if not frame.of_dhaga]
    return f"{stack[-1]}: {stack[-1].source}".removesuffix(": ") if stack else ""


def cycle_texts(waiters: Sequence[Waiter]) -> list[str]:
    """Return a line for each cycle, with the names of its waiters."""
    return [cycle_text([waiter.name for waiter in cycle]) for cycle in cycles(waiters)]


def cycle_text(cycle: Sequence[str]) -> str:
    """Return the names of a cycle as a sentence that ends with the first name."""
    return " waits for ".join([*cycle, cycle[0]])
