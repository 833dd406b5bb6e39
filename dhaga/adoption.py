"""Adoption: locks, conditions, simple queues and thread-locals that exist when the patch comes become ours.

A lock of the OS that a dhaga holds over a park would stop all the others of its OS thread, and an RLock would let each
of them in. So they are replaced wherever they are held. The collector knows those places; the count of references tells
whether it knows all of them. What is held where nothing can be replaced as well (in a tuple, a local variable, an
extension) is left, since two halves exclude nobody; so is an RLock that somebody holds just then.

Rejected: a list of the locks of the standard library; those of other packages matter as much.
"""

from __future__ import annotations

import _queue
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinMethodType, CellType, FrameType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from .changes import package_of
from .kernel import originals
from .local import local
from .locks import Condition, Lock, RLock
from .simplequeue import SimpleQueue

Put = Callable[[Any], object]
Makers = dict[type, Callable[[Any], Any]]

KEPT = ("asyncio", "dhaga", "greenlet", "threading", "tornado")
"""Modules whose own things are left: the event loop's, and those below it. None of them parks with a lock in hand."""

FORK_HANDLERS = {"acquire", "release", "_at_fork_reinit"}
"""Methods of a lock that ``os.register_at_fork`` was given, as far as they may be left with the former one."""

FEW = 100
"""Up to so many things the collector looks for their holders itself: for 20 in 2 ms instead of 11."""

METHODS = (BuiltinMethodType, MethodType)
StandardCondition = threading.Condition
StandardQueue = _queue.SimpleQueue


# ---- successors: of the other kind, in the same state


def lock_like(former: Any, make: Callable[[], Any]) -> Any:
    lock = make()
    if former.locked():
        lock.acquire()
    return lock


def queue_like(former: Any, make: Callable[[], Any]) -> Any:
    queue = make()
    while not former.empty():
        queue.put(former.get())
    return queue


def local_like(former: Any, make: Callable[[], Any]) -> Any:
    new = make()
    for name, value in vars(former).items():
        setattr(new, name, value)
    return new


def is_awaited(thing: Any) -> bool:
    """Tell whether somebody waits for a thing of ours, or in a condition."""
    if type(thing) in (local, originals.local):
        return False
    return any(getattr(thing, name, None) for name in ("_waiters", "waiters", "gates", "getters"))


def is_held(rlock: Any) -> bool:
    """Tell whether anybody, or the caller, holds an RLock."""
    if rlock._is_owned() or not rlock.acquire(False):
        return True
    rlock.release()
    return False


STANDARD_LOCK, STANDARD_RLOCK = type(originals.allocate_lock()), type(originals.RLock())
RLOCKS = (STANDARD_RLOCK, RLock)

FORTH: Makers = {
    STANDARD_LOCK: partial(lock_like, make=Lock),
    STANDARD_RLOCK: lambda former: RLock(),
    StandardQueue: partial(queue_like, make=SimpleQueue),
    originals.local: partial(local_like, make=local),
}
BACK: Makers = {
    Lock: partial(lock_like, make=originals.allocate_lock),
    RLock: lambda former: originals.RLock(),
    SimpleQueue: partial(queue_like, make=StandardQueue),
    local: partial(local_like, make=originals.local),
}


# ---- who holds what


class Holders:
    """What refers to certain things, as far as the collector knows: one look at all that there is."""

    def __init__(self, things: list[Any]) -> None:
        self.found: dict[int, dict[int, Any]] = {id(thing): {} for thing in things}
        asked = tuple(things) if len(things) < FEW else ()
        for holder in gc.get_referrers(*asked) if asked else gc.get_objects():
            # isinstance() would ask a proxy what it stands for
            if holder is not things and holder is not asked and type(holder) is not FrameType:
                self.note(holder)

    def note(self, holder: Any) -> None:
        for held in gc.get_referents(holder):
            if id(held) in self.found:
                self.found[id(held)][id(holder)] = holder

    def of(self, thing: Any) -> list[Any]:
        """Return what refers to a thing."""
        return list(self.found[id(thing)].values())

    def in_between(self) -> list[Any]:
        """Return the holders that are only parts of others: the dict of a module, a class or an object, and methods."""
        return [
            holder for holders in self.found.values() for holder in holders.values() if type(holder) in (dict, *METHODS)
        ]


def times(holder: Any, thing: Any) -> int:
    """Return how often a holder refers to a thing."""
    return sum(held is thing for held in gc.get_referents(holder))


def spots(holder: Any, owner: Any, thing: Any) -> Iterator[Put]:
    """Give a function for each spot in a holder where a thing can be replaced."""
    if type(holder) is dict:
        put = partial(setattr, owner) if is_class(owner) else holder.__setitem__
        yield from (partial(put, name) for name, value in list(holder.items()) if value is thing)
    elif type(holder) is list:
        yield from (partial(holder.__setitem__, n) for n, value in enumerate(holder) if value is thing)
    elif type(holder) is CellType:
        yield partial(setattr, holder, "cell_contents")
    elif not is_class(holder) and type(holder) is not ModuleType:
        yield from spots_of_object(holder, thing)


def spots_of_object(holder: Any, thing: Any) -> Iterator[Put]:
    attributes = dict_of(holder)
    for name, value in (attributes or {}).items():
        if value is thing:
            yield partial(attributes.__setitem__, name)
    for kind in type(holder).__mro__:
        for slot in vars(kind).values():
            if isinstance(slot, MemberDescriptorType) and content(slot, holder) is thing:
                yield partial(slot.__set__, holder)


def is_class(thing: Any) -> bool:
    return issubclass(type(thing), type)


def dict_of(thing: Any) -> Any:
    """Return the attributes of an object, if they are in a dict."""
    try:
        attributes = object.__getattribute__(thing, "__dict__")
    except (AttributeError, TypeError):
        return None
    return attributes if type(attributes) is dict else None


def content(slot: MemberDescriptorType, holder: Any) -> Any:
    try:
        return slot.__get__(holder)
    except AttributeError:
        return None


class Adoption:
    """One replacement of things, as ``makers`` says for each type, and of the conditions of one kind over them."""

    def __init__(self, things: list[Any], makers: Makers, former: type, new: type) -> None:
        self.makers = makers
        self.former, self.new = former, new
        self.conditions: list[Any] = [it for it in gc.get_objects() if type(it) is former]
        things.append(originals.allocate_lock())  # nobody else holds it: what is counted there is from here
        self.holders = Holders(things)
        self.owners = Holders(self.holders.in_between())
        self.references = {id(thing): self.references_unknown(thing) for thing in things}
        self.from_here = self.references[id(things.pop())]
        self.successors = self.replace(things)

    def references_unknown(self, thing: Any) -> int:
        """Return how many references there are that the collector does not know."""
        return sys.getrefcount(thing) - sum(times(holder, thing) for holder in self.holders.of(thing))

    def replace(self, things: list[Any]) -> dict[int, Any]:
        """Make and place the successors. Returns: them, by the id of what they succeed."""
        found = [(thing, self.places(thing)) for thing in things]
        successors = {id(thing): self.makers[type(thing)](thing) for thing, places in found if places is not None}
        self.convert(successors)
        for thing, places in found:
            for put in places or ():
                put(successors[id(thing)])
        return successors

    def convert(self, successors: dict[int, Any]) -> None:
        for condition in self.conditions:
            successor = successors.get(id(condition._lock))
            if successor is not None:
                condition.__dict__.clear()
                condition.__class__ = self.new
                condition.__init__(successor)

    def places(self, thing: Any) -> list[Put] | None:
        """Return the places where a thing is to be replaced; None if it is to be left."""
        if is_awaited(thing) or (type(thing) in RLOCKS and is_held(thing)):
            return None
        found: list[Put] = []
        for holder in self.holders.of(thing):
            spots_there = self.spots(holder, thing)
            if spots_there is None:
                return None
            found += spots_there
        return found if self.references[id(thing)] <= self.from_here else None

    def spots(self, holder: Any, thing: Any) -> list[Put] | None:
        """Return where to replace a thing in one holder; None if that cannot be done in full."""
        if type(holder) in METHODS:
            return [] if self.may_stay(holder) else None
        owner = self.owner(holder)
        if type(owner) is self.former:  # it is converted
            return None if is_awaited(owner) else []
        if kept(owner):
            return None
        number = times(holder, thing)  # before its dict is looked at, and so made
        found = list(spots(holder, owner, thing))
        return found if len(found) == number else None

    def owner(self, holder: Any) -> Any:
        """Return what a dict belongs to; any other holder is what it is."""
        if type(holder) is not dict:
            return holder
        for owner in self.owners.of(holder):
            if dict_of(owner) is holder or (is_class(owner) and holder.keys() == vars(owner).keys()):
                return owner
        return holder

    def may_stay(self, method: Any) -> bool:
        """Tell whether a bound method of a thing may go on with the former one: a condition's, or a fork's handler."""
        mine = self.holders.found.values()
        holders = [holder for holder in self.owners.of(method) if not any(holder is one for one in mine)]
        if all(type(holder) is list for holder in holders):  # the interpreter's lists of handlers
            return method.__name__ in FORK_HANDLERS and self.is_for_forks(method.__self__)
        return all(type(self.owner(holder)) is self.former for holder in holders)

    def is_for_forks(self, lock: Any) -> bool:
        """Tell whether ``os.register_at_fork`` was given methods of a lock."""
        names = {holder.__name__ for holder in self.holders.of(lock) if type(holder) is BuiltinMethodType}
        return "_at_fork_reinit" in names


def kept(owner: Any) -> bool:
    """Tell whether something belongs to the rooms below the patch."""
    module = owner.__name__ if type(owner) is ModuleType else type(owner).__module__
    return package_of(str(module)) in KEPT


# ---- forth and back

adopted: weakref.WeakSet[Any] = weakref.WeakSet()
"""The successors that are in place."""

before_forks: dict[int, tuple[Any, Any]] = {}
"""Those whose former one a fork acquires and releases, and that former one, by the id of the first."""


def adopt() -> None:
    """Replace what exists. From: a process with one OS thread, so that nobody else waits for, or changes, any of it."""
    things = [it for it in gc.get_objects() if type(it) in FORTH]
    adoption = Adoption(things, FORTH, StandardCondition, Condition)
    for thing in things:
        successor = adoption.successors.get(id(thing))
        if successor is not None:
            adopted.add(successor)
            if adoption.is_for_forks(thing):
                before_forks[id(successor)] = successor, thing


def give_back() -> None:
    """Undo that; what somebody waits for, or holds where it cannot be replaced, stays ours, and works."""
    formers = {key: former for key, (_, former) in before_forks.items()}
    before_forks.clear()
    things = list(adopted)
    back = {**BACK, Lock: lambda lock: formers.get(id(lock)) or BACK[Lock](lock)}
    Adoption(things, back, Condition, StandardCondition)
    adopted.clear()


def free_in_child() -> None:
    """Free, in a forked child, what a dhaga of the parent may hold: the fork no longer waits for it."""
    for successor, _ in before_forks.values():
        successor._at_fork_reinit()


os.register_at_fork(after_in_child=free_in_child)
