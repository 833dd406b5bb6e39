"""Strikes: pending errors that reach a dhaga or main code where it computes, when its turn ends.

Errors are of three kinds. What strikes a thread anywhere (the error of a signal's handler, a Ctrl-C, one that
``PyThreadState_SetAsyncExc`` sets) strikes wherever a turn may end. So does every error once the scheduler ends: a
dhaga that never parks would keep the program from its exit. Cancels and expired timeouts come at parks. Where the
program has asked for preemption, they also strike code that computes, but never code that tidies up or prepares
something (``may_strike``), and not right after a call of Dhaga (``in_flight.py``). There they wait for the next
overlong turn or the next park.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from opcode import opmap
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from ..errors import Cancelled, Expired
from ..wait.cancellation import NoPark
from . import native_callers
from .call_outs import beginnings

if TYPE_CHECKING:
    from ..wait.waiter import Waiter

UNSTRUCK = frozenset({"__enter__", "__exit__", "__aenter__", "__aexit__", "close"})
"""Methods that acquire and release: an error in one would lose what a ``with`` block is to release.

The finalizer of a file, in C, calls its ``close`` and swallows the error: a strike would be lost, with the deadline.
"""

TIDYING = (GeneratorExit, Cancelled, Expired)
"""Errors whose handlers are not struck: they tidy up after a close, or after a strike."""

PUSH_EXC_INFO, WITH_EXCEPT_START = opmap["PUSH_EXC_INFO"], opmap["WITH_EXCEPT_START"]
BARE_EXCEPT = opmap["POP_TOP"]
CHECKS = {opmap["CHECK_EXC_MATCH"], opmap["CHECK_EG_MATCH"]}
ENDS = {PUSH_EXC_INFO, opmap["RERAISE"], opmap["POP_EXCEPT"]}


def take(me: Waiter, frame: FrameType | None, deadlines: bool) -> BaseException | None:
    """Remove and return the pending error that strikes the caller, whose code is at ``frame``.

    ``deadlines``: also a cancel or an expired timeout. Returns: None if nothing strikes here.
    """
    pending = me.pending_errors
    if not pending:
        return None
    if me.scheduler.is_ending():
        return pending.pop(0)  # type: ignore[no-any-return]
    asynchronous: BaseException | None = pending.pop_asynchronous()
    if asynchronous is not None:
        return asynchronous
    if deadlines and not isinstance(pending[0], NoPark) and may_strike(frame):
        return pending.pop(0)  # type: ignore[no-any-return]
    return None


def may_strike(frame: FrameType | None) -> bool:
    """Return whether a cancel or an expired timeout may be raised in the code of this frame.

    False in ``finally`` blocks, in the line of a ``with``, in methods that enter or leave a ``with`` block or close an
    object, in a generator that is being closed, and in functions that any of these calls. Also beneath C libraries,
    which may swallow errors.
    """
    if frame is None or isinstance(sys.exception(), TIDYING) or frame.f_lineno in lines_of(frame.f_code)[1]:
        return False
    while frame is not None and frame.f_code not in beginnings:
        if frame.f_code.co_name in UNSTRUCK or frame.f_lineno in lines_of(frame.f_code)[0]:
            return False
        frame = frame.f_back
    return not native_callers.are_foreign()


@lru_cache(maxsize=1000)
def lines_of(code: CodeType) -> tuple[frozenset[int], frozenset[int]]:
    """Return the lines of a function's ``finally`` blocks, and those of its ``with`` statements.

    A ``finally`` block is compiled twice: once as a handler, which is known by the table of exceptions, and once for
    the way without an error. The lines are the same.
    """
    lines = [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]
    finals: set[int | None] = set()
    withs: set[int | None] = set()
    opcodes = code.co_code[::2]
    table = list(exception_table(code))
    for target in {target for _, _, target in table if opcodes[target] == PUSH_EXC_INFO}:
        following = opcodes[target + 1]
        if following == WITH_EXCEPT_START:
            withs.add(lines[target + 1])
        elif following != BARE_EXCEPT and not has_check(opcodes, target + 1):
            end = next((end for start, _, end in table if start <= target + 1 < end), len(lines))
            finals.update(lines[target + 1 : end])
    return frozenset(filter(None, finals)), frozenset(filter(None, withs))


def has_check(opcodes: bytes, unit: int) -> bool:
    """Return whether a handler compares the error: it is an ``except`` with classes."""
    for opcode in opcodes[unit:]:
        if opcode in CHECKS:
            return True
        if opcode in ENDS:
            return False
    return False


def exception_table(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and handler of each entry, in units of code. Source: CPython's exception_handling_notes."""
    numbers = varints(code.co_exceptiontable)
    for start, length, target, _ in zip(numbers, numbers, numbers, numbers, strict=True):
        yield start, start + length, target


def varints(data: bytes) -> Iterator[int]:
    """Yield the numbers of an exception table: six bits a byte, the highest first, and a bit for one more."""
    number = 0
    for byte in data:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0
