"""The wait-for graph: which waiters wait for objects that others hold, and the cycles in it.

Each wait target has a method that names its holders (``_holders()``): a lock names its owner, a joined dhaga itself, a
scope its children. A queue or an event has none, because any code may put or set. A waiter with several holders, such
as a scope, goes on when all of them have ended, so that one cycle through any of them is a deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..stacks import stack_of

if TYPE_CHECKING:
    from .waiter import Waiter


def holders(waiter: Waiter) -> list[object]:
    """Return the holders that a wait depends on; an empty list where any code could end it."""
    return holders_of(waiter.waits_on)


def holders_of(thing: object) -> list[object]:
    """Return what holds a lock, scope or the like: a scope its children."""
    name_holders: Any = getattr(thing, "_holders", None)
    return [] if name_holders is None else name_holders()


def name_of(holder: Any) -> str:
    """Return the name of a holder: a dhaga, or the greenlet that stands for main code or a plain thread."""
    return str(getattr(holder, "name", "a plain thread"))


def cycles(waiters: Iterable[Waiter]) -> list[list[Waiter]]:
    """Return the cycles in which each waiter waits for an object that the next one holds: none of them can continue.

    Each cycle is returned once, beginning with the first of ``waiters`` that is part of it.
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
    """Return the identity of a holder: a lock knows main code by its greenlet, a wait queue by its waiter."""
    return getattr(holder, "own_greenlet", holder)


def _cycles_from(first: Waiter, after: dict[int, list[Waiter]], done: set[int]) -> list[list[Waiter]]:
    """Walk all waits that start at one waiter, depth first; ``done``: waiters that need no second visit."""
    found = []
    path: list[Waiter] = []
    on_path: dict[int, int] = {}
    # An explicit stack: a chain of 10,000 joins would exceed the recursion limit.
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


# ---- as text


def place_of(waiter: Waiter) -> str:
    """Return the innermost place of a parked waiter in code outside Dhaga; empty if there is none."""
    greenlet = getattr(waiter, "own_greenlet", waiter)
    stack = [frame for frame in stack_of(getattr(greenlet, "gr_frame", None)) if not frame.of_dhaga]
    return f"{stack[-1]}: {stack[-1].source}".removesuffix(": ") if stack else ""


def cycle_texts(waiters: Sequence[Waiter]) -> list[str]:
    """Return the waiters of each cycle by name, a line per cycle."""
    return [cycle_text([waiter.name for waiter in cycle]) for cycle in cycles(waiters)]


def cycle_text(cycle: Sequence[str]) -> str:
    """Return the names of a cycle as a sentence, with the first one again at its end."""
    return " waits for ".join([*cycle, cycle[0]])
