"""Call-outs: the functions of Dhaga in which a turn may end, because they leave no operation of Dhaga half done.

They call the program's own code, or are calls of the faces that may end a turn themselves. A turn ends only where the
program could be switched if it ran in OS threads: no other function of Dhaga may be on the stack. An unmarked function
is safe: the turn does not end in its calls.
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
"""The functions that begin a program: all their callers only wait for its end."""

RAW_METHODS = frozenset({"close", "flush", "read", "readall", "readinto", "seek", "tell", "truncate", "write"})
"""Methods of a raw file that the buffer over it calls from C, with its lock held: the lock of an OS thread."""


def calls_out(function: F) -> F:
    """Mark a function that holds no resource another dhaga could need at its calls of foreign code."""
    call_outs.add(function.__code__)
    return function


def begins_program(function: F) -> F:
    """Mark a function whose callers do not matter: none of them holds what the program beneath could need."""
    beginnings.add(function.__code__)
    return function


@cache
def is_of_dhaga(file: str) -> bool:
    """Return whether a source file is one of this package."""
    return file.startswith(PACKAGE)


def is_switchable(frame: FrameType | None, handlers: frozenset[CodeType] = frozenset()) -> bool:
    """Return whether other dhagas may run while the code of this frame and its callers pauses here.

    False in functions of Dhaga other than call-outs (so in the hooks of a fork: see ``dhaga.os``), in finalizers and in
    the ``handlers`` of signals. Also in imports, where another dhaga of the OS thread would find a half-made module,
    and in raw files, whose buffer would refuse another dhaga.
    """
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if is_of_dhaga(file):
            if code in beginnings:
                return True
            # The module is __main__ of ``python -m dhaga``; beneath an import there are the import's own frames.
            if code not in call_outs and code.co_name != "<module>":
                return False
        elif file.startswith("<frozen importlib.") or code.co_name == "__del__" or code in handlers or is_raw(frame):
            return False
        frame = frame.f_back
    return True


def is_raw(frame: FrameType) -> bool:
    """Return whether a frame is of a method of a raw file."""
    code = frame.f_code
    if code.co_name not in RAW_METHODS or not code.co_argcount:
        return False
    return isinstance(frame.f_locals.get(code.co_varnames[0]), RawIOBase)


def program_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside Dhaga."""
    while frame is not None and is_of_dhaga(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
