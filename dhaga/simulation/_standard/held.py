"""Functions of the standard library that are stored in signatures and classes of the program.

``def __init__(self, timer=time.monotonic)`` and ``class Cache: timer = time.monotonic`` are evaluated at import, which
may come before the simulation. Functions that are stored in objects, closures and containers are not found.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from ...monkey._rebind import PatchLog, Replacement, bindings, by_original, python_modules, rebind_defaults


def replace_held(replacements: Iterable[Replacement], log: PatchLog) -> None:
    """Replace the functions in signatures and classes of all modules that import the functions or their modules."""
    ours = by_original(replacements)
    named = {id(each): each for module, _, new, standard in ours.values() for each in (module, new, standard)}
    found = list(python_modules())
    naming = {module for module, _, names in found if bindings(names, named)}
    for module, _, names in found:
        for value in list(names.values()) if module in naming else ():
            if is_of(value, FunctionType) and value.__module__ == module:
                replace_defaults(value, ours, log)
            elif is_of(value, type) and value.__module__ == module:
                replace_in_class(value, ours, log)


def is_of(value: Any, kind: type) -> bool:
    """Return whether a value's type is a subclass of ``kind``.

    The value's ``__class__`` is not read, because reading it makes some proxies import a module.
    """
    return issubclass(type(value), kind)


def replace_in_class(kind: type, ours: dict[int, Replacement], log: PatchLog) -> None:
    for name, value in list(vars(kind).items()):
        function = value.__func__ if is_of(value, staticmethod) else value
        if id(function) in ours:
            log.entries.append((kind, name, value))
            setattr(kind, name, staticmethod(ours[id(function)].ours))  # a C function in a class gets no ``self``
        elif is_of(function, FunctionType):
            replace_defaults(function, ours, log)


def replace_defaults(function: FunctionType, ours: dict[int, Replacement], log: PatchLog) -> None:
    rebind_defaults(function, ours, log)
    keywords = function.__kwdefaults__ or {}
    replaced = {name: ours[id(value)].ours for name, value in keywords.items() if id(value) in ours}
    if replaced:
        log.set(function, "__kwdefaults__", keywords | replaced)
