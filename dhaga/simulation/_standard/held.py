"""Functions of the standard library that signatures and classes of the program hold.

``def __init__(self, timer=time.monotonic)`` and ``class Cache: timer = time.monotonic`` were evaluated at the import,
which may come before the simulation. Not found: the functions that objects, closures and containers hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from ...monkey._rebind import PatchLog, Replacement, bindings, by_original, rebind_defaults


def replace_held(replacements: Iterable[Replacement], log: PatchLog) -> None:
    """Replace the functions in the signatures and classes of the Python modules that name them or their modules."""
    ours = by_original(replacements)
    named = {id(each) for module, _, new, standard in ours.values() for each in (module, new, standard)}
    names = list(bindings())
    modules = {module for module, _, _, value in names if id(value) in named}
    for module, _, _, value in names:
        if module not in modules:
            continue
        if is_of(value, FunctionType) and value.__module__ == module:
            replace_defaults(value, ours, log)
        elif is_of(value, type) and value.__module__ == module:
            replace_in_class(value, ours, log)


def is_of(value: Any, kind: type) -> bool:
    """Return whether a value is of a kind. Its ``__class__`` is not read: a proxy may import something then."""
    return issubclass(type(value), kind)


def replace_in_class(kind: type, ours: dict[int, Replacement], log: PatchLog) -> None:
    for name, value in list(vars(kind).items()):
        function = value.__func__ if is_of(value, staticmethod) else value
        if id(function) in ours:
            log.entries.append((kind, name, value))
            setattr(kind, name, staticmethod(ours[id(function)].ours))  # what C functions are without a decorator
        elif is_of(function, FunctionType):
            replace_defaults(function, ours, log)


def replace_defaults(function: FunctionType, ours: dict[int, Replacement], log: PatchLog) -> None:
    rebind_defaults(function, ours, log)
    keywords = function.__kwdefaults__ or {}
    replaced = {name: ours[id(value)].ours for name, value in keywords.items() if id(value) in ours}
    if replaced:
        log.set(function, "__kwdefaults__", keywords | replaced)
