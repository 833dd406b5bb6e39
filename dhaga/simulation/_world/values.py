"""The values in the statement that failed, for the report."""

from __future__ import annotations

import ast
import linecache
import reprlib
from collections.abc import Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

MOST = 8
"""The largest number of values shown."""

LONGEST = 60
"""The maximum number of characters of a value that are shown."""

UNSHOWN = ModuleType, type, FunctionType, BuiltinFunctionType

limited = reprlib.Repr()
limited.maxstring = limited.maxother = limited.maxlong = LONGEST


def values_of(error: BaseException) -> list[str]:
    """Return ``name = value`` for the variables and attributes that the failed line reads or assigns.

    Properties are left out, so that this function runs hardly any code of the program besides ``__repr__`` of values.
    """
    place = innermost(error.__traceback__)
    if place is None:
        return []
    found: dict[str, str] = {}
    for expression in names_in(linecache.getline(place.tb_frame.f_code.co_filename, place.tb_lineno)):
        value = value_of(expression, place.tb_frame)
        # isinstance() would read the attribute __class__ of the program's object.
        if not issubclass(type(value), UNSHOWN) and value is not MISSING:
            found[ast.unparse(expression)] = limited.repr(value)
    return [f"{name} = {text}" for name, text in list(found.items())[:MOST]]


MISSING = object()


def innermost(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def names_in(line: str) -> Iterator[ast.expr]:
    """Yield the variables and attributes that a line reads or assigns, without called functions.

    Yield nothing if the line is not a whole statement.
    """
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError):
        return
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in called:
            yield node


def value_of(expression: ast.expr, frame: FrameType) -> Any:
    """Return the value of a variable, or of an attribute in its object's ``__dict__``; else ``MISSING``."""
    if isinstance(expression, ast.Name):
        return frame.f_locals.get(expression.id, frame.f_globals.get(expression.id, MISSING))
    if not isinstance(expression, ast.Attribute):
        return MISSING
    owner = value_of(expression.value, frame)
    try:
        # getattr() would call the program's __getattribute__ and __getattr__.
        return object.__getattribute__(owner, "__dict__").get(expression.attr, MISSING)
    except AttributeError:  # an object with slots only, or MISSING
        return MISSING
