"""Upgrade the locks, conditions, simple queues and thread-locals that exist at the time of the patch.

An OS lock that a dhaga holds across a park would stop all dhagas of its OS thread, and an RLock would admit each of
them. So all references to an object are replaced by references to one of ours in the same state. ``gc`` finds the
referrers; the reference count tells whether it has found all.

- **Replaced in place**: references in dicts (of modules, classes, objects), lists, slots and closure cells. Conditions
  stay the same objects: their class is set, and they are made anew over the new lock.
- **Left**: an object with a reference that cannot be set (in a tuple, a local variable, an extension), because a lock
  and its replacement would not exclude each other's holders. Also an object with waiters, a held RLock, since its owner
  cannot be moved, and the objects of ``NOT_UPGRADED``.
- **Kept beside the new one**: a lock whose methods ``os.register_at_fork`` has, because they cannot be removed there.
  These handlers keep using the old lock; in a forked child the new one is freed (``free_in_child``).

``downgrade_locks`` does the same the other way round. The upgrade needs a process with one OS thread, so that no other
thread waits for, or changes, any of these objects. Rejected: a list of the locks of the standard library, because locks
of other packages matter as much.
"""

from __future__ import annotations

import _queue
import gc
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinMethodType, CellType, FrameType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from .._kernel import hooks, originals
from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.weak_sets import members
from .._sync.condition import Condition
from .._sync.local import local
from .._sync.lock import Lock, RLock
from .._sync.simple_queue import SimpleQueue
from ._rebind import package_of

Setter = Callable[[Any], object]
Makers = dict[type, Callable[[Any], Any]]

NOT_UPGRADED = ("asyncio", "dhaga", "greenlet", "threading", "tornado")
"""Modules whose objects are left unchanged: those of the event loop, and below it. None parks while it holds a lock."""

FORK_HANDLERS = {"acquire", "release", "_at_fork_reinit"}
"""Methods of a lock that ``os.register_at_fork`` may have; they may remain the old lock's."""

FEW = 100
"""The most objects that are passed to ``gc.get_referrers``, which takes 2 ms for 20 of them; a pass over all objects
takes 11 ms.
"""

METHODS = (BuiltinMethodType, MethodType)
StandardCondition = threading.Condition
StandardQueue = _queue.SimpleQueue


# ---- makers: an object of the other kind, in the same state


def lock_like(old: Any, make: Callable[[], Any]) -> Any:
    lock = make()
    if old.locked():
        lock.acquire()
    return lock


def queue_like(old: Any, make: Callable[[], Any]) -> Any:
    queue = make()
    while not old.empty():
        queue.put(old.get())
    return queue


def local_like(old: Any, make: Callable[[], Any]) -> Any:
    new = make()
    for name, value in vars(old).items():
        setattr(new, name, value)
    return new


def has_waiters(obj: Any) -> bool:
    """Return whether a waiter is parked on an object of ours, or in a condition."""
    if type(obj) in (local, originals.local):
        return False
    return any(getattr(obj, name, None) for name in ("_waiters", "_waiters_", "_gates", "_getters_"))


def is_held(rlock: Any) -> bool:
    """Return whether an RLock is held, by the caller or by another."""
    if rlock._is_owned() or not rlock.acquire(False):
        return True
    rlock.release()
    return False


STANDARD_LOCK, STANDARD_RLOCK = type(originals.allocate_lock()), type(originals.RLock())
RLOCKS = (STANDARD_RLOCK, RLock)

UPGRADES: Makers = {
    STANDARD_LOCK: partial(lock_like, make=Lock),
    STANDARD_RLOCK: lambda old: RLock(),
    StandardQueue: partial(queue_like, make=SimpleQueue),
    originals.local: partial(local_like, make=local),
}
DOWNGRADES: Makers = {
    Lock: partial(lock_like, make=originals.allocate_lock),
    RLock: lambda old: originals.RLock(),
    SimpleQueue: partial(queue_like, make=StandardQueue),
    local: partial(local_like, make=originals.local),
}


# ---- referrers


class Referrers:
    """The referrers of certain objects, as far as ``gc`` knows them; found in one pass over all objects.

    Their references are counted in this pass. Later, a reader of an object's ``__dict__`` may have made that dict, and
    it has the references instead.
    """

    def __init__(self, objects: list[Any]) -> None:
        self.found: dict[int, dict[int, Any]] = {id(obj): {} for obj in objects}
        self.references: Counter[tuple[int, int]] = Counter()
        asked = tuple(objects) if len(objects) < FEW else ()
        for referrer in gc.get_referrers(*asked) if asked else gc.get_objects():
            # type() throughout: isinstance() would resolve a proxy
            if referrer is not objects and referrer is not asked and type(referrer) is not FrameType:
                self.note(referrer)

    def note(self, referrer: Any) -> None:
        # Of a module only its dict: `_asyncio` of 3.12 and 3.13 tells gc of futures' iterators that it has freed, and
        # another reference frees them twice. References in its C state are left, like all references of extensions.
        for held in [vars(referrer)] if type(referrer) is ModuleType else gc.get_referents(referrer):
            if id(held) in self.found:
                self.found[id(held)][id(referrer)] = referrer
                self.references[id(held), id(referrer)] += 1

    def of(self, obj: Any) -> list[Any]:
        """Return the referrers of an object."""
        return list(self.found[id(obj)].values())

    def count(self, obj: Any, *referrers: Any) -> int:
        """Return the number of references to an object in some of its referrers."""
        return sum(self.references[id(obj), id(referrer)] for referrer in referrers)

    def indirect(self) -> list[Any]:
        """Return the referrers that are parts of others: methods, and the dicts of modules, classes and objects."""
        return [
            referrer
            for referrers in self.found.values()
            for referrer in referrers.values()
            if type(referrer) in (dict, *METHODS)
        ]


def setters(referrer: Any, owner: Any, obj: Any) -> Iterator[Setter]:
    """Yield a function for each place in a referrer where the object can be replaced."""
    if type(referrer) is dict:
        put = partial(setattr, owner) if is_class(owner) else referrer.__setitem__
        yield from (partial(put, name) for name, value in list(referrer.items()) if value is obj)
    elif type(referrer) is list:
        yield from (partial(referrer.__setitem__, n) for n, value in enumerate(referrer) if value is obj)
    elif type(referrer) is CellType:
        yield partial(setattr, referrer, "cell_contents")
    elif not is_class(referrer) and type(referrer) is not ModuleType:
        yield from setters_of_object(referrer, obj)


def setters_of_object(referrer: Any, obj: Any) -> Iterator[Setter]:
    attributes = dict_of(referrer)
    for name, value in (attributes or {}).items():
        if value is obj:
            yield partial(attributes.__setitem__, name)
    for kind in type(referrer).__mro__:
        for slot in vars(kind).values():
            if isinstance(slot, MemberDescriptorType) and content(slot, referrer) is obj:
                yield partial(slot.__set__, referrer)


def locals_of_callers() -> set[int]:
    """Return the ids of all that local variables of callers of this module hold. Cells are among the referrers."""
    found: set[int] = set()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code, values = frame.f_code, frame.f_locals
        names = {*code.co_varnames} - {*code.co_cellvars}
        if frame.f_globals is not globals():
            found.update(id(values[name]) for name in names if name in values)
        frame = frame.f_back
    return found


def is_class(obj: Any) -> bool:
    return issubclass(type(obj), type)


def dict_of(obj: Any) -> Any:
    """Return the ``__dict__`` of an object if it has one, without calling code of its class."""
    try:
        attributes = object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):
        return None
    return attributes if type(attributes) is dict else None


def content(slot: MemberDescriptorType, referrer: Any) -> Any:
    try:
        return slot.__get__(referrer)
    except AttributeError:
        return None


class LockUpgrade:
    """One replacement of objects, by ``makers`` for each type, and of the conditions of one class over them.

    It works in three steps: find all referrers, find a setter for each reference, and only then replace. An object for
    which the second step fails is left as it was.
    """

    def __init__(self, objects: list[Any], makers: Makers, old: type, new: type) -> None:
        self.makers = makers
        self.old_condition, self.new_condition = old, new
        self.conditions: list[Any] = [it for it in gc.get_objects() if type(it) is old]
        # Referenced only by this method: their counts are the baseline.
        objects += [originals.allocate_lock(), originals.local()]
        self.referrers = Referrers(objects)
        self.owners = Referrers(self.referrers.indirect())
        self.references = {id(obj): self.unknown_references(obj) for obj in objects}
        self.from_here_to_local = self.references[id(objects.pop())]
        self.from_here = self.references[id(objects.pop())]
        self.in_frames = locals_of_callers() if FREE_THREADED else set()
        self.replacements = self.replace(objects)

    def unknown_references(self, obj: Any) -> int:
        """Return the number of references to an object that ``gc`` does not know."""
        return sys.getrefcount(obj) - self.referrers.count(obj, *self.referrers.of(obj))

    def replace(self, objects: list[Any]) -> dict[int, Any]:
        """Make and place the new objects. Returns: the new objects, by the id of the old one."""
        found = [(obj, self.setters_for(obj)) for obj in objects]
        replacements = {id(obj): self.makers[type(obj)](obj) for obj, places in found if places is not None}
        self.convert(replacements)
        for obj, places in found:
            for put in places or ():
                put(replacements[id(obj)])
        return replacements

    def convert(self, replacements: dict[int, Any]) -> None:
        for condition in self.conditions:
            replacement = replacements.get(id(condition._lock))
            if replacement is not None:
                condition.__dict__.clear()
                condition.__class__ = self.new_condition
                condition.__init__(replacement)

    def setters_for(self, obj: Any) -> list[Setter] | None:
        """Return the setters for all references to an object; None if it must be left."""
        if has_waiters(obj) or (type(obj) in RLOCKS and is_held(obj)):
            return None
        referrers = self.referrers.of(obj)
        if not referrers:  # garbage, as is a replaced thread-local of a free-threaded build until the next collection
            return None
        found: list[Setter] = []
        for referrer in referrers:
            there = self.setters_in(referrer, obj)
            if there is None:
                return None
            found += there
        return None if self.has_unknown_references(obj) else found

    def has_unknown_references(self, obj: Any) -> bool:
        """Return whether a local variable or an extension has a reference to an object."""
        if type(obj) is not originals.local:
            return self.references[id(obj)] > self.from_here
        # A free-threaded build adds 2 ** 60 to the count of a thread-local, and leaves out some local variables.
        return self.references[id(obj)] > self.from_here_to_local or id(obj) in self.in_frames

    def setters_in(self, referrer: Any, obj: Any) -> list[Setter] | None:
        """Return the setters for an object in one referrer; None if one is missing."""
        if type(referrer) in METHODS:
            return [] if self.may_stay(referrer) else None
        owner = self.owner(referrer)
        if type(owner) is self.old_condition:  # convert() replaces it
            return None if has_waiters(owner) else []
        if belongs_below(owner):
            return None
        found = list(setters(referrer, owner, obj))
        return found if len(found) == self.referrers.count(obj, referrer) else None

    def owner(self, referrer: Any) -> Any:
        """Return the owner of a dict; any other referrer is returned unchanged."""
        if type(referrer) is not dict:
            return referrer
        for owner in self.owners.of(referrer):
            if dict_of(owner) is referrer or (is_class(owner) and referrer.keys() == vars(owner).keys()):
                return owner
        return referrer

    def may_stay(self, method: Any) -> bool:
        """Return whether a bound method may keep the old object: a condition's, or a fork handler's."""
        mine = self.referrers.found.values()
        referrers = [referrer for referrer in self.owners.of(method) if not any(referrer is one for one in mine)]
        if all(type(referrer) is list for referrer in referrers):  # the interpreter's lists of fork handlers
            return method.__name__ in FORK_HANDLERS and self.is_for_forks(method.__self__)
        return all(type(self.owner(referrer)) is self.old_condition for referrer in referrers)

    def is_for_forks(self, lock: Any) -> bool:
        """Return whether ``os.register_at_fork`` has methods of a lock."""
        names = {referrer.__name__ for referrer in self.referrers.of(lock) if type(referrer) is BuiltinMethodType}
        return "_at_fork_reinit" in names


def belongs_below(owner: Any) -> bool:
    """Return whether an object belongs to a module of ``NOT_UPGRADED``."""
    module = owner.__name__ if type(owner) is ModuleType else type(owner).__module__
    return package_of(str(module)) in NOT_UPGRADED


# ---- upgrade and downgrade

upgraded: weakref.WeakSet[Any] = weakref.WeakSet()
"""The new objects that are in place."""

fork_locks: dict[int, tuple[Any, Any]] = {}
"""New and old lock, by the id of the new one, if fork handlers still use the old one."""


def upgrade_locks() -> None:
    """Upgrade all existing objects. From: a process in which no other OS thread waits for one or changes one."""
    objects = [it for it in gc.get_objects() if type(it) in UPGRADES]
    upgrade = LockUpgrade(objects, UPGRADES, StandardCondition, Condition)
    for obj in objects:
        replacement = upgrade.replacements.get(id(obj))
        if replacement is not None:
            upgraded.add(replacement)
            if upgrade.is_for_forks(obj):
                fork_locks[id(replacement)] = replacement, obj


def downgrade_locks() -> None:
    """Undo the upgrade; objects with waiters, or that cannot be replaced, stay ours, and work."""
    old_locks = {key: old for key, (_, old) in fork_locks.items()}
    fork_locks.clear()
    objects = members(upgraded)
    back = {**DOWNGRADES, Lock: lambda lock: old_locks.get(id(lock)) or DOWNGRADES[Lock](lock)}
    LockUpgrade(objects, back, Condition, StandardCondition)
    upgraded.clear()


def free_in_child() -> None:
    """In a forked child, free the new locks, which a dhaga of the parent may hold. The old locks have handlers."""
    for replacement, _ in fork_locks.values():
        replacement._at_fork_reinit()


hooks.in_forked_child.append(free_in_child)
