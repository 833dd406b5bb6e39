"""The patch log, and the rebinding of names that modules imported from the standard library before the patch.

``PatchLog`` stores each attribute that is set and its former value. It undoes changes in reverse order, so that a name
that was set twice gets its first value back. Besides the names of the table, the patch changes names that other modules
bound with ``from threading import Lock`` (``rebind``), and standard classes derived from ``threading.Thread``
(``rebase``). Dhaga itself uses some standard classes: their methods still look up the originals (``keep_originals``).
Extension modules are not changed, because references in C code cannot be found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from .._kernel import originals

BELOW_PATCH = ("dhaga", "greenlet")
"""Packages whose imported names are not changed, because the patch itself needs these names."""


class Replacement(NamedTuple):
    """A name of a standard module, its replacement, and the original."""

    module: ModuleType
    name: str
    ours: Any
    standard: Any


class PatchLog:
    """A log of attributes that were set, each with its former value."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.entries)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of an object. The object must already have this attribute."""
        self.entries.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restore all former values in reverse order."""
        while self.entries:
            owner, name, value = self.entries[-1]
            setattr(owner, name, value)
            self.entries.pop()


def package_of(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def is_standard(module: str) -> bool:
    """Return whether a module belongs to the standard library."""
    return package_of(module) in sys.stdlib_module_names


def keep_originals(replacements: Sequence[Replacement], log: PatchLog) -> None:
    """Store the originals in ``originals.namespaces``, and let methods of replaced classes keep their globals."""
    standards = {id(replacement.standard) for replacement in replacements}
    for module, name, _, standard in replacements:
        if module.__name__ not in originals.namespaces:
            continue
        originals.namespaces[module.__name__][name] = kept_function(standard)
        if isinstance(standard, type) and standard.__module__ == module.__name__:
            replaced = {name for name, value in vars(module).items() if id(value) in standards}
            for kind, method, kept in originals.unpatched_methods(standard, replaced):
                if vars(kind)[method].__globals__ is vars(module):  # the method does not yet keep its globals
                    log.set(kind, method, kept)


def kept_function(standard: Any) -> Any:
    """Return a copy of a function; the copy keeps the current globals. Return any other object unchanged."""
    return originals.unpatched(standard) if isinstance(standard, FunctionType) else standard


def rebind(replacements: Iterable[Replacement], log: PatchLog, wanted: Callable[[str], bool] = bool) -> None:
    """Replace objects that modules bound before the patch, for example with ``from threading import Lock``."""
    ours = by_original(replacements)
    for key, module, names in python_modules():
        classes = classes_of(key, names) if is_standard(key) else []
        for name, value in bindings(names, ours) if wanted(key) else ():
            if key in originals.namespaces:
                originals.namespaces[key][name] = value
            log.set(module, name, ours[id(value)].ours)
        for kind in classes:
            for method in vars(kind).values() if id(kind) not in ours else ():
                if isinstance(method, FunctionType):
                    rebind_defaults(method, ours, log)


def rebind_back(replacements: Iterable[Replacement]) -> None:
    """Restore standard objects and base classes in standard modules that were imported while the patch was active."""
    back = [it._replace(ours=it.standard, standard=it.ours) for it in replacements]
    rebind(back, PatchLog(), is_standard)
    rebase(back, PatchLog())


def by_original(replacements: Iterable[Replacement]) -> dict[int, Replacement]:
    """Return the replacement of each callable original, by the original's id. Ignore duplicates."""
    found: dict[int, Replacement] = {}
    for replacement in replacements:
        if callable(replacement.standard) and isinstance(replacement.module, ModuleType):
            found.setdefault(id(replacement.standard), replacement)
    return found


def rebind_defaults(function: FunctionType, ours: dict[int, Replacement], log: PatchLog) -> None:
    """Replace objects in the default arguments of a function, such as ``def _recv(self, size, read=os.read)``."""
    defaults = function.__defaults__
    if defaults and any(id(value) in ours for value in defaults):
        log.set(function, "__defaults__", tuple(ours[id(v)].ours if id(v) in ours else v for v in defaults))


def python_modules() -> Iterator[tuple[str, ModuleType, dict[str, Any]]]:
    """Yield all Python modules except those of ``BELOW_PATCH``: each module's own name, the module, and its dict.

    A module's own name may differ from its key in ``sys.modules``. No attribute of a module is read, because some
    modules are proxies, which would import a module or create an object.
    """
    for key, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType):
            names = object.__getattribute__(module, "__dict__")
            own = names.get("__name__")
            own = own if isinstance(own, str) else key
            python = key == "__main__" or str(names.get("__file__")).endswith((".py", ".pyc"))
            if python and package_of(own) not in BELOW_PATCH and package_of(key) not in BELOW_PATCH:
                yield own, module, names


def bindings(names: dict[str, Any], wanted: Mapping[int, Any]) -> list[tuple[str, Any]]:
    """Return each name with its value if the value has a wanted id. The call takes 1.2 µs for 30 unwanted names."""
    if wanted.keys().isdisjoint(map(id, list(names.values()))):
        return []
    return [(name, value) for name, value in list(names.items()) if id(value) in wanted]


def classes_of(module: str, names: dict[str, Any]) -> list[type]:
    """Return the classes that a module defines."""
    return [it for it in list(names.values()) if issubclass(type(it), type) and it.__module__ == module]


def rebase(replacements: Iterable[Replacement], log: PatchLog, known: Sequence[str] = ()) -> None:
    """Replace the base ``threading.Thread`` of subclasses with the replacement of Thread.

    Change only standard classes outside ``threading``, and classes of the packages ``known``. The classes must not have
    instances.
    """
    for module, name, ours, standard in replacements:
        if (module.__name__, name) != ("threading", "Thread"):
            continue
        for subclass in standard.__subclasses__():
            package = package_of(subclass.__module__)
            if package in known or (is_standard(package) and subclass.__module__ != "threading"):
                log.set(subclass, "__bases__", tuple(ours if base is standard else base for base in subclass.__bases__))
