"""Finds the tests that start a process, and the tests of a crowd, by their names, code and fixtures.

A test starts a process if its code, or code of ``tests`` that it calls, uses a name that starts a process: see
``STARTERS``. A test that uses a parameter or a method of an object for this is marked by hand.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

STARTERS = {"subprocess", "multiprocessing", "dhaga.subprocess", "tests.kit.scripts", "tests.kit.prefork_programs"}
"""Modules of which nearly everything starts a process."""

NO_STARTERS = {"version", "ROOT", "PIPE", "DEVNULL", "CalledProcessError", "TimeoutExpired"}
"""Names in these modules that start no process."""

FORKS = {"fork", "forkpty", "posix_spawn", "run_subprocess", "runpytest_subprocess"}
"""Attributes that start a process, of any object."""

CROWD = re.compile(r"thousand")


def starts_process(functions: Iterator[Any]) -> bool:
    return any(_starts(function) for function in functions)


@cache
def _starts(function: Any) -> bool:
    return any(_is_starter(name, value) for name, value in _reached(function))


def _is_starter(name: str, value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in STARTERS
    home = getattr(value, "__module__", None)
    return name in FORKS or (home in STARTERS and name not in NO_STARTERS)


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names that a function uses, with their values. Include the functions of tests that it calls."""
    todo, seen = [function], set()
    while todo:
        each = todo.pop()
        if id(each) in seen or not getattr(each, "__module__", "").startswith(("tests.", "test_", "conftest")):
            continue
        seen.add(id(each))
        if isinstance(each, type):
            todo += [value for value in vars(each).values() if isinstance(value, FunctionType)]
            todo += each.__bases__
        for name, value in _names_of(each):  # cached: many tests reach the same helpers
            yield name, value
            if isinstance(value, FunctionType | type):
                todo.append(value)


@cache
def _names_of(function: Any) -> list[tuple[str, Any]]:
    function = getattr(function, "__wrapped__", function)
    found: list[tuple[str, Any]] = []
    if isinstance(function, FunctionType):
        for code in _codes_in(function.__code__):
            found += ((name, None) for name in FORKS.intersection(code.co_names))
            known = function.__globals__.keys() & set(code.co_names)
            found += ((name, function.__globals__[name]) for name in known and known & _globals_of(code))
    return found


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


LOAD_GLOBAL, EXTENDED_ARG = dis.opmap["LOAD_GLOBAL"], dis.opmap["EXTENDED_ARG"]


def _globals_of(code: CodeType) -> set[str]:
    """Return the names that code looks up in its module. Many other names in ``co_names`` are attributes.

    Rejected: ``dis.get_instructions``, which makes an object for each instruction, and took half of the collection.
    """
    found, more = set[str](), 0
    for opcode, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument |= more
        more = argument << 8 if opcode == EXTENDED_ARG else 0
        if opcode == LOAD_GLOBAL:
            found.add(code.co_names[argument >> 1])  # the lowest bit tells of a call
    return found
