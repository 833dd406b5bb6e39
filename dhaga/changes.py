"""Changes of what belongs to others: made in an order, and taken back in the opposite one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from .kernel import originals

OURS = ("dhaga", "greenlet")
"""Packages that go on with what they have: they are below the patch, not above it."""


class Replacement(NamedTuple):
    """A name of a standard module, what is to be there, and what is there without us."""

    module: ModuleType
    name: str
    ours: Any
    standard: Any


class Changes:
    """What was set, with what was there before."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.made)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class that has it."""
        self.made.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put all back, the last one first."""
        while self.made:
            owner, name, value = self.made[-1]
            setattr(owner, name, value)
            self.made.pop()


def package_of(module: str) -> str:
    """Return the name that an import statement begins with."""
    return module.partition(".")[0]


def is_standard(module: str) -> bool:
    """Tell whether a module is of the standard library."""
    return package_of(module) in sys.stdlib_module_names


def keep_originals(replacements: Sequence[Replacement], changes: Changes) -> None:
    """Have the standard classes that we replace, and use, find in their modules what they have always found."""
    standards = {id(replacement.standard) for replacement in replacements}
    for module, name, _, standard in replacements:
        if module.__name__ not in originals.namespaces:
            continue
        originals.namespaces[module.__name__][name] = kept_function(standard)
        if isinstance(standard, type) and standard.__module__ == module.__name__:
            replaced = {name for name, value in vars(module).items() if id(value) in standards}
            for kind, method, kept in originals.kept_methods(standard, replaced):
                if vars(kind)[method].__globals__ is vars(module):  # not a second time
                    changes.set(kind, method, kept)


def kept_function(standard: Any) -> Any:
    """Return a function that goes on as before; anything else is as it is."""
    return originals.kept(standard) if isinstance(standard, FunctionType) else standard


def rebind(replacements: Iterable[Replacement], changes: Changes, wanted: Callable[[str], bool] = bool) -> None:
    """Replace what modules have bound to names of their own, ``from threading import Lock``, before the patch."""
    ours: dict[int, Replacement] = {}
    for replacement in replacements:
        if callable(replacement.standard) and isinstance(replacement.module, ModuleType):
            ours.setdefault(id(replacement.standard), replacement)
    for key, module, name, value in held_by_modules():
        found = ours.get(id(value))
        if found is not None and wanted(key):
            if key in originals.namespaces:
                originals.namespaces[key][name] = value
            changes.set(module, name, found.ours)
        elif is_standard(key) and isinstance(value, type) and value.__module__ == key:
            rebind_defaults(value, ours, changes)


def restore(replacements: Iterable[Replacement]) -> None:
    """Put the standard's back where standard modules were imported, and have bound or derived, while it was ours."""
    back = [it._replace(ours=it.standard, standard=it.ours) for it in replacements]
    rebind(back, Changes(), is_standard)
    rebase(back, Changes())


def rebind_defaults(kind: type, ours: dict[int, Replacement], changes: Changes) -> None:
    """Replace the same in the defaults of methods: ``def _recv(self, size, read=os.read)``."""
    for method in vars(kind).values():
        defaults = method.__defaults__ if isinstance(method, FunctionType) else None
        if defaults and any(id(value) in ours for value in defaults):
            changes.set(method, "__defaults__", tuple(ours[id(v)].ours if id(v) in ours else v for v in defaults))


def held_by_modules() -> Iterator[tuple[str, ModuleType, str, Any]]:
    """Give the names of all Python modules but ours. An extension is left alone: what it holds is what it is.

    Nothing is asked of a module or a value: some are proxies, which would import or make what they stand for.
    """
    for key, module in list(sys.modules.items()):
        if issubclass(type(module), ModuleType) and package_of(key) not in OURS:
            names = object.__getattribute__(module, "__dict__")
            if key == "__main__" or str(names.get("__file__")).endswith((".py", ".pyc")):
                yield from ((key, module, name, value) for name, value in list(names.items()))


def rebase(replacements: Iterable[Replacement], changes: Changes) -> None:
    """Have standard classes be derived from ours that were derived from ``threading.Thread`` before the patch."""
    for module, name, ours, standard in replacements:
        if (module.__name__, name) != ("threading", "Thread"):
            continue
        for heir in standard.__subclasses__():
            if is_standard(heir.__module__) and heir.__module__ != "threading":
                changes.set(heir, "__bases__", tuple(ours if base is standard else base for base in heir.__bases__))
