"""Results in flight: a deadline does not strike a dhaga that has just got something from a call of Dhaga.

In ``got.append(items.get())`` an item is in no variable between the two calls. The same is true of a connection until
its pool has put it into an object; and a request is half done until its answer is read. So a due strike begins a
``Flight``, which follows the dhaga's events. The flight ends at the first of two places:

- A backward jump of a loop around the call, in the innermost function that the result can be in. That function has gone
  on to its next round.
- ``EVENTS`` events after the last call of Dhaga.

The dhaga's calls before its first event are unknown: that event counts as a call of Dhaga.
Rejected: to ask the value stack or the bytecode whether a call's result is in use. It may be in a local variable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opmap
from types import BuiltinMethodType, FrameType, FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import Any

from .call_outs import is_of_dhaga, program_frame

EVENTS = 200
"""Jumps, calls and starts of functions. Not measured; with this number, the pools of three packages kept all answers.
"""

TESTS_BELOW = sys.version_info < (3, 14)
"""Whether the condition of a ``while`` is compiled below its body: the jump comes right after the calls in it."""

FOR_ITER = opmap["FOR_ITER"]

PACKAGE = "dhaga"

DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType)


class Flight:
    """The dhaga's last call of Dhaga before a due strike: the functions that its result may be in."""

    def __init__(self, turn: int, frame: FrameType) -> None:
        # It ends with this turn: the watcher finds the next one.
        self.turn = turn
        self.depart(frame)

    def depart(self, frame: FrameType) -> None:
        """Note a call of Dhaga at this frame."""
        self.events_left = EVENTS
        # The innermost first, each with the offset of its call.
        self.holders = [(each, each.f_lasti) for each in outwards(program_frame(frame))]

    def has_landed(self, frame: FrameType, destination: int | None) -> bool:
        """Count an event. Returns: whether the strike may come. ``destination``: the offset to which the code jumps."""
        self.events_left -= 1
        return self.events_left <= 0 or (destination is not None and self.is_next_round(frame, destination))

    def is_next_round(self, frame: FrameType, destination: int) -> bool:
        """Return whether a jump in this frame begins a further round of a loop around the last call of Dhaga."""
        holder, offset = self.holders[0]
        if holder is not frame:
            # Those that have returned gave the result to their callers.
            live = set(map(id, outwards(frame)))
            while self.holders and id(self.holders[0][0]) not in live:
                del self.holders[0]
            if not self.holders or self.holders[0][0] is not frame:
                return False
            offset = self.holders[0][1]
        return destination <= offset and (not TESTS_BELOW or frame.f_code.co_code[destination] == FOR_ITER)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def calls_dhaga(code_file: str, called: tuple[Any, ...]) -> bool:
    """Return whether an event is in a function of Dhaga, or calls one.

    ``called``: of the event CALL, the callable and its first argument, which is the object of a method.
    """
    return is_of_dhaga(code_file) or any(module_of(each).partition(".")[0] == PACKAGE for each in called)


def module_of(thing: Any) -> str:
    """Return the module that defines a callable or an object's class. No attribute of the object itself is read: it may
    be a proxy.
    """
    kind = type(thing)
    if kind is MethodType:
        return module_of(thing.__func__)
    if kind is BuiltinMethodType:
        thing = thing if thing.__module__ else type(thing.__self__)
    elif kind in DESCRIPTORS:
        thing = thing.__objclass__
    elif kind is not FunctionType and not issubclass(kind, type):
        thing = kind
    return str(getattr(thing, "__module__", ""))
