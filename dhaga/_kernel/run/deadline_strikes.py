"""Strikes: pending errors that are raised in code that computes, at the end of an overlong turn (``preemption.py``).

- An OS thread must expect three errors anywhere: a signal handler's error, a Ctrl-C, and an error that
  ``PyThreadState_SetAsyncExc`` sets. These errors strike wherever a turn may end.
- Once the scheduler ends, all other errors also strike wherever a turn may end. Otherwise a dhaga that never parks
  would prevent the end.
- Before that, cancels and expired timeouts are raised at parks. If the program has asked for preemption, they also
  strike code that computes, except cleanup and setup code (``may_strike``) and code right after a call of Dhaga
  (``in_flight.py``). In the excepted code the errors stay pending until the next overlong turn or the next park.
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
"""Methods that acquire or release a resource. Nothing strikes there: an error in such a method would lose the resource.

A file's finalizer, in C, calls the file's ``close`` and discards errors: a strike in ``close`` would lose the deadline.
"""

TIDYING = (GeneratorExit, Cancelled, Expired)
"""Errors in whose handlers nothing strikes: such handlers clean up after the close of a generator or after a strike."""

PUSH_EXC_INFO, WITH_EXCEPT_START = opmap["PUSH_EXC_INFO"], opmap["WITH_EXCEPT_START"]
BARE_EXCEPT = opmap["POP_TOP"]
CHECKS = {opmap["CHECK_EXC_MATCH"], opmap["CHECK_EG_MATCH"]}
ENDS = {PUSH_EXC_INFO, opmap["RERAISE"], opmap["POP_EXCEPT"]}


def take(me: Waiter, frame: FrameType | None, deadlines: bool) -> BaseException | None:
    """Remove and return the pending error that strikes the caller, whose code is at ``frame``.

    ``deadlines``: whether a cancel or an expired timeout may strike. Returns: None if no error strikes here.
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

    Returns: False in ``finally`` blocks, in methods that enter or leave a ``with`` block or close an object, and in all
    functions that these call. Also False in the line of a ``with`` statement, in handlers of the errors in ``TIDYING``,
    and in calls from C libraries, which may discard errors.
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
    """Return the line numbers of a function's ``finally`` blocks and of its ``with`` statements.

    A ``finally`` block is compiled twice with the same line numbers: as a handler, which is in the exception table, and
    for the path without an error. So the lines of the handler suffice.
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
    """Return whether the handler at ``unit`` compares the error with classes, as an ``except`` clause does."""
    for opcode in opcodes[unit:]:
        if opcode in CHECKS:
            return True
        if opcode in ENDS:
            return False
    return False


def exception_table(code: CodeType) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and handler of each entry, in code units. Source: CPython's exception_handling_notes."""
    numbers = varints(code.co_exceptiontable)
    for start, length, target, _ in zip(numbers, numbers, numbers, numbers, strict=True):
        yield start, start + length, target


def varints(data: bytes) -> Iterator[int]:
    """Yield the numbers of an exception table. Each byte has six bits of the number, the highest bits first, and a flag
    that says whether another byte follows.
    """
    number = 0
    for byte in data:
        number = number << 6 | byte & 63
        if not byte & 64:
            yield number
            number = 0
