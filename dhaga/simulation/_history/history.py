"""Histories: the calls that clients made, with their results, to be checked against a model of what they called.

A history of concurrent calls is *linearizable* if one moment can be found for each call, between its begin and end, so
that a model called at these moments has the same results. Histories need no simulation, but are most useful in one.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Hashable
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from ..._kernel.faces.foreign_names import refuse_async_with
from .linearizability import UNKNOWN, Model, Search

P = ParamSpec("P")
R = TypeVar("R")


class NotLinearizable(AssertionError):
    """No order of the calls explains their results. The message has those calls that have no place in any order."""


@refuse_async_with()
class Call:
    """One call, as a context manager: set ``result`` in its block.

    A block that raises leaves the result ``UNKNOWN``. ``cancel()`` removes a call that had no effect for certain.
    """

    def __init__(self, history: History, name: str, arguments: tuple[Any, ...]) -> None:
        self.history = history
        self.name = name
        self.arguments = arguments
        self.result: Any = UNKNOWN
        self.who = threading.current_thread().name
        self.began_at = self.ended_at = math.nan
        # The order of the begins and ends of all calls; clocks may have equal readings.
        self.began, self.ended = math.inf, math.inf

    def __repr__(self) -> str:
        until = "" if math.isnan(self.ended_at) else f"{self.ended_at:.3f}"
        arguments = ", ".join(map(repr, self.arguments))
        return f"{self.began_at:.3f} to {until or 'no end'}: {self.who}: {self.name}({arguments}) -> {self.result!r}"

    def __enter__(self) -> Call:
        self.began_at, self.began = time.monotonic(), next(self.history.order)
        self.history.calls.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self in self.history.calls:
            self.result = None if self.result is UNKNOWN else self.result
            self.ended_at, self.ended = time.monotonic(), next(self.history.order)

    def cancel(self) -> None:
        """Remove the call from the history: it had no effect and never will."""
        self.history.calls.remove(self)


class History:
    """The calls of all clients. Thread-safe.

    >>> from dhaga.simulation import History, registers
    >>> history = History()
    >>> with history.call("put", "colour", "red"):
    ...     pass
    >>> with history.call("get", "colour") as call:
    ...     call.result = "red"
    >>> history.check(registers, key=lambda call: call.arguments[0])
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.order = itertools.count()

    def __repr__(self) -> str:
        return f"<History of {len(self.calls)} calls>"

    def call(self, name: str, *arguments: Any) -> Call:
        """Return the record of a call, for a ``with`` statement around it."""
        return Call(self, name, arguments)

    def recorded(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return a function that records its calls, by the name of ``fn`` and its positional arguments."""

        @wraps(fn)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self.call(fn.__name__, *args) as record:
                record.result = result = fn(*args, **kwargs)
            return result

        return call

    def check(
        self,
        model: Model,
        initial: Hashable = None,
        *,
        key: Callable[[Call], Hashable] | None = None,
        real_time: bool = True,
    ) -> None:
        """Check that the history is linearizable.

        ``model(state, call)`` returns the state after a call, or ``IMPOSSIBLE`` if it could not have that result then;
        states are hashable, and ``initial`` is the first. ``key``: calls of different keys touch different things, and
        each key has a state of its own: that is much faster. ``real_time=False``: a call may have its moment before its
        begin or after its end, so the history is only *serializable*.
        Raises: NotLinearizable.
        """
        parts: dict[Hashable, list[Call]] = {}
        for call in self.calls:
            parts.setdefault(None if key is None else key(call), []).append(call)
        for calls in parts.values():
            search = Search(calls, model, real_time)
            if not search.explains(initial):
                raise NotLinearizable(described(search))


def described(search: Search) -> str:
    """Return the message for a history that no order explains."""
    lines = [
        f"no order explains the {len(search.calls)} calls; these {len(search.longest)} have one:",
        *[f"  {call}" for call in search.longest],
        f"then the state is {search.state!r}, and none of these can be next:",
        *[f"  {call}" for call in search.refused],
    ]
    return "\n".join(lines)
