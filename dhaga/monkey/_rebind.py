"""The patch log, and the rebinding of names that modules took from the standard library before the patch.

A change is an attribute that was set, with its former value. ``PatchLog`` undoes changes in reverse order: a name that
was set twice gets its first value back. Besides the names of the table, the patch changes names that other modules
bound with ``from threading import Lock`` (``rebind``), and standard classes derived from ``threading.Thread``
(``rebase``). Methods of the standard classes that Dhaga itself uses keep their former globals (``keep_originals``).
Extension modules stay unchanged: references in C code cannot be found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from .._kernel import originals

BELOW_PATCH = ("dhaga", "greenlet")
"""Packages that keep the names they have bound, because the patch itself needs them."""


class Replacement(NamedTuple):
    """A name of a standard module, its replacement, and the original."""

    module: ModuleType
    name: str
    ours: Any
    standard: Any


class PatchLog:
    """The attributes that were set, each with its former value."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.entries)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class, which must have it."""
        self.entries.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Restore all former values, the last first."""
        while self.entries:
            owner, name, value = self.entries[-1]
            setattr(owner, name, value)
            self.entries.pop()


def package_of(module: str) -> str:
    """Return the top-level package of a module."""
    return module.partition(".")[0]


def is_standard(module: str) -> bool:
    """Return whether a module is of the standard library."""
    return package_of(module) in sys.stdlib_module_names


def keep_originals(replacements: Sequence[Replacement], log: PatchLog) -> None:
    """Keep the globals of the replaced standard classes that Dhaga uses: their methods work as before."""
    standards = {id(replacement.standard) for replacement in replacements}
    for module, name, _, standard in replacements:
        if module.__name__ not in originals.namespaces:
            continue
        originals.namespaces[module.__name__][name] = kept_function(standard)
        if isinstance(standard, type) and standard.__module__ == module.__name__:
            replaced = {name for name, value in vars(module).items() if id(value) in standards}
            for kind, method, kept in originals.unpatched_methods(standard, replaced):
                if vars(kind)[method].__globals__ is vars(module):  # not yet kept
                    log.set(kind, method, kept)


def kept_function(standard: Any) -> Any:
    """Return a function that keeps its present globals; any other object unchanged."""
    return originals.unpatched(standard) if isinstance(standard, FunctionType) else standard


def rebind(replacements: Iterable[Replacement], log: PatchLog, wanted: Callable[[str], bool] = bool) -> None:
    """Replace objects that modules bound before the patch, as with ``from threading import Lock``."""
    ours = by_original(replacements)
    for key, module, name, value in bindings():
        found = ours.get(id(value))
        if found is not None and wanted(key):
            if key in originals.namespaces:
                originals.namespaces[key][name] = value
            log.set(module, name, found.ours)
        elif issubclass(type(value), type) and is_standard(key) and value.__module__ == key:
            for method in vars(value).values():
                if isinstance(method, FunctionType):
                    rebind_defaults(method, ours, log)


def rebind_back(replacements: Iterable[Replacement]) -> None:
    """Undo, in standard modules imported during the patch, the bindings of and derivations from our objects."""
    back = [it._replace(ours=it.standard, standard=it.ours) for it in replacements]
    rebind(back, PatchLog(), is_standard)
    rebase(back, PatchLog())


def by_original(replacements: Iterable[Replacement]) -> dict[int, Replacement]:
    """Return the replacements of callables, by the id of the original; of several for one, the first."""
    found: dict[int, Replacement] = {}
    for replacement in replacements:
        if callable(replacement.standard) and isinstance(replacement.module, ModuleType):
            found.setdefault(id(replacement.standard), replacement)
    return found


def rebind_defaults(function: FunctionType, ours: dict[int, Replacement], log: PatchLog) -> None:
    """Replace objects in the defaults of a function: ``def _recv(self, size, read=os.read)``."""
    defaults = function.__defaults__
    if defaults and any(id(value) in ours for value in defaults):
        log.set(function, "__defaults__", tuple(ours[id(v)].ours if id(v) in ours else v for v in defaults))


def bindings() -> Iterator[tuple[str, ModuleType, str, Any]]:
    """Yield the names of all Python modules, apart from those below the patch.

    A module's own name counts, because it may also be in ``sys.modules`` under another one. No attribute of a module or
    value is read: some are proxies, which would import a module or create an object.
    """
    for key, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType):
            names = object.__getattribute__(module, "__dict__")
            own = names.get("__name__")
            own = own if isinstance(own, str) else key
            python = key == "__main__" or str(names.get("__file__")).endswith((".py", ".pyc"))
            if python and not {package_of(own), package_of(key)} & {*BELOW_PATCH}:
                yield from ((own, module, name, value) for name, value in list(names.items()))


def rebase(replacements: Iterable[Replacement], log: PatchLog, known: Sequence[str] = ()) -> None:
    """Change classes derived from ``threading.Thread`` before the patch: derive them from our ``Thread``.

    Only standard classes, and classes of the packages ``known``, which must have no instances.
    """
    for module, name, ours, standard in replacements:
        if (module.__name__, name) != ("threading", "Thread"):
            continue
        for subclass in standard.__subclasses__():
            package = package_of(subclass.__module__)
            if package in known or (is_standard(package) and subclass.__module__ != "threading"):
                log.set(subclass, "__bases__", tuple(ours if base is standard else base for base in subclass.__bases__))
