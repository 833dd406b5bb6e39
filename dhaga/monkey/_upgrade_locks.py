"""Upgrades the locks, conditions, simple queues and thread-locals that exist at the time of the patch.

If a dhaga held a standard lock across a park, the next dhaga that acquired the lock would block the OS thread of both
for ever. A standard RLock would admit all dhagas of the thread at once. So all references to a standard object are
replaced with references to an object of Dhaga in the same state. ``gc`` finds the referrers; the object's reference
count shows whether all of them are found.

- **Replaced in place** are references in dicts (of modules, classes, objects), lists, slots and closure cells.
  Conditions stay the same objects: their class is set, and they are initialized again with the new lock.
- **Left unchanged** are objects with a reference that cannot be set, for example in a tuple, a local variable or an
  extension. Otherwise, a lock and its replacement would both be in use, and would not exclude each other's holders.
  Also unchanged are objects with waiters, held RLocks (their owner cannot be transferred), and the objects of
  ``NOT_UPGRADED``.
- **Kept in addition to the new lock** is a lock whose methods are registered with ``os.register_at_fork``, because
  methods cannot be unregistered. These methods still use the old lock; ``free_in_child`` unlocks the new lock in a
  forked child.

``downgrade_locks`` reverses the upgrade. The upgrade requires a process with one OS thread, so that no other thread
waits for these objects or changes them. Rejected: a list of the standard library's locks, because locks of other
packages are just as important.
"""

from __future__ import annotations

import _queue
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinMethodType, CellType, FrameType, MemberDescriptorType, ModuleType
from typing import Any

from .._kernel import hooks, originals
from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.weak_sets import members
from .._sync.condition import Condition
from .._sync.local import local
from .._sync.lock import Lock, RLock
from .._sync.simple_queue import SimpleQueue
from ._rebind import package_of
from ._referrers import METHODS, Referrers, instances_of, look_at_known, remember

Setter = Callable[[Any], object]
Makers = dict[type, Callable[[Any], Any]]

NOT_UPGRADED = ("asyncio", "dhaga", "greenlet", "threading", "tornado")
"""Packages whose objects are left unchanged, because these packages hold no lock across a park. They are Dhaga,
greenlet, the packages of the event loop, and ``threading``, which the other packages use.
"""

FORK_HANDLERS = {"acquire", "release", "_at_fork_reinit"}
"""Methods that may stay bound to the old lock if they are registered with ``os.register_at_fork``."""

StandardCondition = threading.Condition
StandardQueue = _queue.SimpleQueue


# ---- makers, which return an object in the same state but of the new class


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
    """Return whether one of Dhaga's objects, or a condition, has waiters."""
    if type(obj) in (local, originals.local):
        return False
    return any(getattr(obj, name, None) for name in ("_waiters", "_waiters_", "_gates", "_getters_"))


def is_held(rlock: Any) -> bool:
    """Return whether an RLock is held by any thread, including the caller."""
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


# ---- references


def setters(referrer: Any, owner: Any, obj: Any) -> Iterator[Setter]:
    """Yield a setter for each place in a referrer where the object can be replaced."""
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
    """Return the ids of local variables' values in callers outside this module. Skip cells, which ``gc`` finds."""
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
    """Return the ``__dict__`` of an object, or None, without calling code of the object's class."""
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
    """Replaces objects with new ones, and converts conditions. ``makers`` contains the functions that create new ones.

    There are three steps: find all referrers, find a setter for each reference, and call the setters. An object for
    which the second step fails is left unchanged.
    """

    def __init__(self, objects: list[Any], makers: Makers, old: type, new: type) -> None:
        self.makers = makers
        self.old_condition, self.new_condition = old, new
        self.in_frames = locals_of_callers() if FREE_THREADED else set()
        self.referrers, self.owners = Referrers(), Referrers()
        self.referrers.ignored.add(id(objects))
        # Only this method refers to these two objects and to the bound method below. Their counts serve as baselines.
        objects += [originals.allocate_lock(), originals.local()]
        self.methods = [objects[-2].acquire]
        self.referrers.add(objects)
        self.referrers.note(self.methods[0])
        self.referrers.find(lambda: self.unexplained(objects))
        self.count(objects)
        del objects[-2:]
        self.owners.find(lambda: self.ownerless(objects))
        self.replacements = self.replace(objects)

    def count(self, objects: list[Any]) -> None:
        """Count the references that no known referrer has. The last two objects are the baseline."""
        self.references = {id(obj): self.unknown_references(obj, self.referrers) for obj in objects}
        self.from_here, self.from_here_to_local = [self.references[id(obj)] for obj in objects[-2:]]

    def unknown_references(self, obj: Any, referrers: Referrers) -> int:
        """Return the number of references to an object that none of its known referrers has."""
        return sys.getrefcount(obj) - referrers.count(obj)

    def unexplained(self, objects: list[Any]) -> list[Any]:
        """Return the objects with references from unknown referrers, except objects that must be left unchanged."""
        self.look_for_owners()
        self.count(objects)
        return [obj for obj in objects if self.has_unknown_references(obj) and not self.is_left(obj)]

    def look_for_owners(self) -> None:
        """Search for the owners of new referrers, among the objects that were owners in earlier searches."""
        self.owners.add(self.referrers.indirect())
        self.owners.ignored.update(map(id, self.referrers.found.values()))
        look_at_known(self.owners)
        self.owners.note(self.methods)

    def is_left(self, obj: Any) -> bool:
        """Return whether an object must be left unchanged. The answer True stays true when more referrers are found."""
        if has_waiters(obj) or (type(obj) in RLOCKS and is_held(obj)):
            return True
        owners = [self.owner(referrer) for referrer in self.referrers.of(obj)]
        return any(type(owner) is not self.old_condition and belongs_below(owner) for owner in owners)

    def ownerless(self, objects: list[Any]) -> list[Any]:
        """Among the dicts and methods that refer to replaceable objects, return those with unknown owners."""
        self.look_for_owners()
        # The copy of the list adds one reference to the method, as the list of referrers below does.
        [usual] = [self.unknown_references(method, self.owners) for method in list(self.methods)]
        return [
            referrer
            for obj in objects
            if not self.has_unknown_references(obj) and not self.is_left(obj)
            for referrer in self.referrers.of(obj)
            if (type(referrer) is dict and self.owner(referrer) is referrer)
            or (type(referrer) in METHODS and self.unknown_references(referrer, self.owners) > usual)
        ]

    def replace(self, objects: list[Any]) -> dict[int, Any]:
        """Create the new objects, and replace the old ones. Returns: a dict from old objects' ids to new objects."""
        found = [(obj, self.setters_for(obj)) for obj in objects]
        replacements = {id(obj): self.makers[type(obj)](obj) for obj, places in found if places is not None}
        owners = self.owners_of(objects)
        remember(owners)
        self.convert([owner for owner in owners if type(owner) is self.old_condition], replacements)
        for obj, places in found:
            for put in places or ():
                put(replacements[id(obj)])
        return replacements

    def owners_of(self, objects: list[Any]) -> list[Any]:
        """Return the owners of all references that were found."""
        direct = [referrer for obj in objects for referrer in self.referrers.of(obj)]
        found = [*direct, *(it for each in direct if type(each) in METHODS for it in self.owners.of(each))]
        owners = [self.owner(referrer) for referrer in found]
        return list({id(owner): owner for owner in owners}.values())

    def convert(self, conditions: list[Any], replacements: dict[int, Any]) -> None:
        for condition in conditions:
            replacement = replacements.get(id(condition._lock))
            if replacement is not None:
                condition.__dict__.clear()
                condition.__class__ = self.new_condition
                condition.__init__(replacement)

    def setters_for(self, obj: Any) -> list[Setter] | None:
        """Return the setters for all references to an object, or None if the object must be left unchanged."""
        if has_waiters(obj) or (type(obj) in RLOCKS and is_held(obj)):
            return None
        referrers = self.referrers.of(obj)
        if not referrers:  # garbage that is not yet collected, such as a replaced thread-local in a free-threaded build
            return None
        found: list[Setter] = []
        for referrer in referrers:
            there = self.setters_in(referrer, obj)
            if there is None:
                return None
            found += there
        return None if self.has_unknown_references(obj) else found

    def has_unknown_references(self, obj: Any) -> bool:
        """Return whether an object has references from unknown referrers: local variables or extensions."""
        if type(obj) is not originals.local:
            return self.references[id(obj)] > self.from_here
        # A free-threaded build adds 2 ** 60 to the count of a thread-local, and does not count some local variables.
        return self.references[id(obj)] > self.from_here_to_local or id(obj) in self.in_frames

    def setters_in(self, referrer: Any, obj: Any) -> list[Setter] | None:
        """Return the setters for an object in one referrer, or None if a reference has no setter."""
        if type(referrer) in METHODS:
            return [] if self.may_stay(referrer) else None
        owner = self.owner(referrer)
        if type(owner) is self.old_condition:  # convert() replaces the reference
            return None if has_waiters(owner) else []
        if belongs_below(owner):
            return None
        found = list(setters(referrer, owner, obj))
        return found if len(found) == self.referrers.references[id(obj), id(referrer)] else None

    def owner(self, referrer: Any) -> Any:
        """Return the object or class whose attributes a dict holds. Return any other referrer unchanged, and also a
        dict whose object is unknown.
        """
        if type(referrer) is not dict:
            return referrer
        for owner in self.owners.of(referrer):
            if dict_of(owner) is referrer or (is_class(owner) and referrer.keys() == vars(owner).keys()):
                return owner
        return referrer

    def may_stay(self, method: Any) -> bool:
        """Return whether a bound method may keep the old object. A condition's method and a fork handler may."""
        referrers = self.owners.of(method)
        if all(type(referrer) is list for referrer in referrers):  # the interpreter's lists of fork handlers
            return method.__name__ in FORK_HANDLERS and self.is_for_forks(method.__self__)
        return all(type(self.owner(referrer)) is self.old_condition for referrer in referrers)

    def is_for_forks(self, lock: Any) -> bool:
        """Return whether methods of a lock are registered with ``os.register_at_fork``."""
        names = {referrer.__name__ for referrer in self.referrers.of(lock) if type(referrer) is BuiltinMethodType}
        return "_at_fork_reinit" in names


def belongs_below(owner: Any) -> bool:
    """Return whether an object belongs to a module of ``NOT_UPGRADED``."""
    module = owner.__name__ if type(owner) is ModuleType else type(owner).__module__
    return package_of(str(module)) in NOT_UPGRADED


# ---- upgrade and downgrade

upgraded: weakref.WeakSet[Any] = weakref.WeakSet()
"""The new objects that have replaced old ones."""

fork_locks: dict[int, tuple[Any, Any]] = {}
"""New and old locks in pairs. The key is the id of the new lock. Fork handlers still use the old lock."""


def upgrade_locks() -> None:
    """Upgrade all instances of the old classes. From: a process in which no other OS thread uses these objects."""
    objects = instances_of(UPGRADES)
    upgrade = LockUpgrade(objects, UPGRADES, StandardCondition, Condition)
    for obj in objects:
        replacement = upgrade.replacements.get(id(obj))
        if replacement is not None:
            upgraded.add(replacement)
            if upgrade.is_for_forks(obj):
                fork_locks[id(replacement)] = replacement, obj


def downgrade_locks() -> None:
    """Undo the upgrade. Objects that have waiters or cannot be replaced keep Dhaga's classes, and still work."""
    old_locks = {key: old for key, (_, old) in fork_locks.items()}
    fork_locks.clear()
    objects = members(upgraded)
    back = {**DOWNGRADES, Lock: lambda lock: old_locks.get(id(lock)) or DOWNGRADES[Lock](lock)}
    LockUpgrade(objects, back, Condition, StandardCondition)
    upgraded.clear()


def free_in_child() -> None:
    """Unlock the new locks, which the parent may have held. Fork handlers unlock the old ones. From: a forked child."""
    for replacement, _ in fork_locks.values():
        replacement._at_fork_reinit()


hooks.in_forked_child.append(free_in_child)
