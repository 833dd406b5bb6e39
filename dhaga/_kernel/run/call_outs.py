"""Call-outs: the functions of Dhaga during which a dhaga's turn may end, because no operation of Dhaga is half done.

A turn lasts from one switch to the next. A call-out calls the program's own code, or is a public function that may end
a turn itself. A turn ends only where the interpreter could switch OS threads in a threaded program. A function of Dhaga
that is not a call-out may be in the middle of an operation, so no turn ends while such a function is on the stack. A
function without a mark is therefore safe: no turn ends in the functions that it calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from io import RawIOBase
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = f"{Path(__file__).parents[2]}{os.sep}"

call_outs: set[CodeType] = set()

beginnings: set[CodeType] = set()
"""The functions that start a program. Their callers only wait for the program's end."""

RAW_METHODS = frozenset({"close", "flush", "read", "readall", "readinto", "seek", "tell", "truncate", "write"})
"""Methods of a raw file. A buffered file calls them from C while it holds a lock that belongs to the OS thread."""


def calls_out(function: F) -> F:
    """Mark a function as a call-out: it holds no resource that another dhaga could need while foreign code runs."""
    call_outs.add(function.__code__)
    return function


def begins_program(function: F) -> F:
    """Mark a function that starts a program: its callers hold no resource that the program could need."""
    beginnings.add(function.__code__)
    return function


@cache
def is_of_dhaga(file: str) -> bool:
    """Return whether a source file belongs to this package."""
    return file.startswith(PACKAGE)


def is_switchable(frame: FrameType | None, handlers: frozenset[CodeType] = frozenset()) -> bool:
    """Return whether other dhagas may run while the code of this frame and of its callers is paused.

    Returns: False in functions of Dhaga other than call-outs (for example in fork hooks, see ``dhaga.os``), in
    finalizers, and in the signal handlers ``handlers``. Also False in an import, because another dhaga of the OS thread
    would find a half-initialized module. Also False in methods of a raw file, because the buffered file over the raw
    file would refuse calls of another dhaga.
    """
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if is_of_dhaga(file):
            if code in beginnings:
                return True
            # Module-level code belongs to __main__ of ``python -m dhaga`` or to an import. The frames of the import are
            # further out on the stack.
            if code not in call_outs and code.co_name != "<module>":
                return False
        elif file.startswith("<frozen importlib.") or code.co_name == "__del__" or code in handlers or is_raw(frame):
            return False
        frame = frame.f_back
    return True


def is_raw(frame: FrameType) -> bool:
    """Return whether a frame runs a method of a raw file."""
    code = frame.f_code
    if code.co_name not in RAW_METHODS or not code.co_argcount:
        return False
    return isinstance(frame.f_locals.get(code.co_varnames[0]), RawIOBase)


def program_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside Dhaga."""
    while frame is not None and is_of_dhaga(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
