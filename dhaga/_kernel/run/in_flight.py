"""Results in flight: a deadline's error is delayed until a dhaga has probably stored the result of a call of Dhaga.

In ``got.append(items.get())`` the item is in no variable between the two calls, and an error would lose the item. The
same is true of a connection that its pool has not stored in an object yet. A request is half done until its answer is
read. So a strike (a pending error that is raised in code that computes: ``deadline_strikes.py``) first starts a
``Flight``, which follows the dhaga's monitoring events. The flight ends, and the error is raised, at the first of two
places:

- A backward jump of a loop around the call, in the innermost function that may hold the result. At this jump, the
  function begins the loop's next round.
- ``EVENTS`` events after the last call of Dhaga.

The dhaga's calls before the flight's first event are unknown, so this event counts as a call of Dhaga.
Rejected: examining the value stack or the bytecode for a result in use, because the result may be in a local variable.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opmap
from types import BuiltinMethodType, FrameType, FunctionType, MethodDescriptorType, MethodType, WrapperDescriptorType
from typing import Any

from .call_outs import is_of_dhaga, program_frame

EVENTS = 200
"""The number of events (jumps, calls, starts of functions) that end a flight.

This number was not optimized by measurement. With this number, the connection pools of three packages lost no answer.
"""

TESTS_BELOW = sys.version_info < (3, 14)
"""Whether a ``while`` is compiled with its condition below its body. Its backward jump then comes right after the
condition, whose result may still be in flight.
"""

FOR_ITER = opmap["FOR_ITER"]

PACKAGE = "dhaga"

DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType)


class Flight:
    """A dhaga's last call of Dhaga before a strike, with the functions that may hold the result of the call."""

    def __init__(self, turn: int, frame: FrameType) -> None:
        # If this turn ends first, the flight ends without a strike. The next overlong turn starts another flight.
        self.turn = turn
        self.depart(frame)

    def depart(self, frame: FrameType) -> None:
        """Record a call of Dhaga at this frame, and restart the count of events."""
        self.events_left = EVENTS
        # The frames on the stack, the innermost first, each with the bytecode offset of its current call.
        self.holders = [(each, each.f_lasti) for each in outwards(program_frame(frame))]

    def has_landed(self, frame: FrameType, destination: int | None) -> bool:
        """Count an event. ``destination``: the bytecode offset of a jump's target. Returns: whether the flight ends."""
        self.events_left -= 1
        return self.events_left <= 0 or (destination is not None and self.is_next_round(frame, destination))

    def is_next_round(self, frame: FrameType, destination: int) -> bool:
        """Return whether a jump in this frame begins another round of a loop around the last call of Dhaga."""
        holder, offset = self.holders[0]
        if holder is not frame:
            # Drop the functions that have returned: they have passed the result to their callers.
            live = set(map(id, outwards(frame)))
            while self.holders and id(self.holders[0][0]) not in live:
                del self.holders[0]
            if not self.holders or self.holders[0][0] is not frame:
                return False
            offset = self.holders[0][1]
        return destination <= offset and (not TESTS_BELOW or frame.f_code.co_code[destination] == FOR_ITER)


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, its caller, the caller's caller, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def calls_dhaga(code_file: str, called: tuple[Any, ...]) -> bool:
    """Return whether an event is in a function of Dhaga, or is a call of such a function.

    ``called``: for the event CALL, the callable and its first argument, which is the object if the callable is a
    method.
    """
    return is_of_dhaga(code_file) or any(module_of(each).partition(".")[0] == PACKAGE for each in called)


def module_of(thing: Any) -> str:
    """Return the name of the module that defines a callable or, for any other object, the object's class.

    No attribute of the object itself is read, because the object may be a proxy.
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
