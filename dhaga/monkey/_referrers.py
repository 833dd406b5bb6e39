"""Finds the referrers of objects: first among the owners that an earlier search has found, at last among all objects.

A search of all objects takes 30 ms per million objects. A wanted object needs this search only if its reference count
is larger than the number of references from its known referrers. So references that the program has made since the
earlier search are found.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import BuiltinMethodType, FrameType, MethodType, ModuleType
from typing import Any

from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.platform.system import system

METHODS = (BuiltinMethodType, MethodType)

FEW = 100
"""If fewer objects than this are wanted, they are passed to ``gc.get_referrers``, which takes 2 ms for 20 objects. The
alternative, ``gc.get_objects``, takes 11 ms.
"""


class Referrers:
    """The referrers that a search with ``gc`` has found for certain objects.

    A referrer's references are counted when the referrer is found. Later counts may differ: if code reads an object's
    ``__dict__``, the object may create this dict and move its references there.
    """

    def __init__(self) -> None:
        self.found: dict[int, dict[int, Any]] = {}
        self.references: Counter[tuple[int, int]] = Counter()
        # The ids of lists and dicts of the search itself.
        self.ignored: set[int] = set()

    def add(self, objects: Iterable[Any]) -> None:
        """Add objects whose referrers are wanted."""
        for obj in objects:
            self.found.setdefault(id(obj), {})

    def note(self, referrer: Any) -> None:
        """Record the references of a possible referrer; no-op for a referrer that is already recorded."""
        # In a module, only the dict is searched. `_asyncio` of 3.12 and 3.13 reports freed iterators of futures to gc.
        # A new reference to such an iterator would free it twice. References in the C state of extensions are left
        # unchanged anyway.
        held = [vars(referrer)] if type(referrer) is ModuleType else gc.get_referents(referrer)
        if self.found.keys().isdisjoint(map(id, held)) or id(referrer) in self.ignored:
            return
        for key, count in Counter(key for key in map(id, held) if key in self.found).items():
            if id(referrer) not in self.found[key]:
                self.found[key][id(referrer)] = referrer
                self.references[key, id(referrer)] = count

    def find(self, missing: Callable[[], list[Any]]) -> None:
        """Run the searches in ``LOOKS`` until ``missing`` returns no more objects."""
        for look in LOOKS:
            # The list has no name here, because a variable would count as a reference.
            if not self.look_for(missing(), look):
                return

    def look_for(self, wanted: list[Any], look: Callable[[Referrers, list[Any]], object]) -> bool:
        """Search for the referrers of ``wanted`` with ``look``. Returns: False if no object is wanted."""
        if wanted:
            self.add(wanted)
            self.ignored.add(id(wanted))
            look(self, wanted)
            self.ignored.discard(id(wanted))
        return bool(wanted)

    def of(self, obj: Any) -> list[Any]:
        """Return the referrers of an object."""
        return list(self.found.get(id(obj), {}).values())

    def count(self, obj: Any) -> int:
        """Return the number of references to an object in all its referrers."""
        return sum(self.references[id(obj), referrer] for referrer in self.found.get(id(obj), ()))

    def indirect(self) -> list[Any]:
        """Return the referrers that belong to other objects: methods, and dicts of modules, classes and objects."""
        return [
            referrer
            for referrers in self.found.values()
            for referrer in referrers.values()
            if type(referrer) in (dict, *METHODS)
        ]


# ---- places to search; all use type(), because isinstance() would resolve a proxy


known: dict[int, weakref.ref[Any]] = {}
"""The owners of references that earlier searches have found, by id."""


def remember(owners: Iterable[Any]) -> None:
    """Add objects to ``known``, where later searches begin; no-op for an object without support for weak references."""
    for owner in owners:
        with suppress(TypeError):
            known[id(owner)] = weakref.ref(owner)


def look_at_known(referrers: Referrers, _: object = None) -> None:
    """Search the objects in ``known``, with their dicts and methods, and the lists of fork handlers."""
    owners = [owner for owner in [each() for each in known.values()] if owner is not None]
    for owner in owners:
        referrers.note(owner)
        for part in [vars(owner)] if type(owner) is ModuleType else parts_of(owner):
            referrers.note(part)
            for method in parts_of(part) if type(part) is dict else ():
                if type(method) in METHODS:
                    referrers.note(method)
    for each in lists_of_fork_handlers():
        referrers.note(each)


def parts_of(owner: Any) -> list[Any]:
    return [each for each in gc.get_referents(owner) if type(each) in (dict, *METHODS)]


def look_at_young(referrers: Referrers, _: object) -> None:
    """Search the objects in the young generations of the garbage collector."""
    for generation in (0, 1):
        for referrer in gc.get_objects(generation):
            if type(referrer) is not FrameType:
                referrers.note(referrer)


def look_at_all(referrers: Referrers, wanted: list[Any]) -> None:
    """Search all objects of the process."""
    asked = tuple(wanted) if len(wanted) < FEW else ()
    for referrer in gc.get_referrers(*asked) if asked else gc.get_objects():
        if referrer is not asked and type(referrer) is not FrameType:
            referrers.note(referrer)


LOOKS = (look_at_all,) if FREE_THREADED else (look_at_known, look_at_young, look_at_all)
"""The searches, fastest first. A free-threaded build's reference counts do not show whether a fast search suffices."""


# ---- fork handlers


def mark() -> None:
    """Do nothing. The interpreter's lists of fork handlers are found because only they contain this function."""


system.register_at_fork(before=mark, after_in_parent=mark, after_in_child=mark)

found_lists: list[list[Any]] = []


def lists_of_fork_handlers() -> list[list[Any]]:
    """Return the interpreter's lists of fork handlers, which stay the same objects until the process ends."""
    if not found_lists and system.FORKS:
        found_lists.extend(each for each in gc.get_referrers(mark) if type(each) is list)
    return found_lists


# ---- instances


def instances_of(kinds: Iterable[type]) -> list[Any]:
    """Return the direct instances of classes. They are found because each instance refers to its class."""
    wanted = frozenset(kinds)
    return [each for each in gc.get_referrers(*wanted) if type(each) in wanted]
