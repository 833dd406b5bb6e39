"""Histories: the calls that clients made, with their results, to be checked against a model of the called object.

Each call is given a single moment between its start and its end, and the calls are made on a model in the order of
these moments. The history is *linearizable* if for some choice of moments the model returns the same results. Histories
also work without a simulation, but in a simulation they are most useful.
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
    """No order of the calls explains their results.

    The message shows the longest order found, and the calls that cannot follow this order.
    """


@refuse_async_with()
class Call:
    """The record of one call, as a context manager around the call. The block sets ``result``.

    If the block raises an error before it sets ``result``, the result stays ``UNKNOWN``. After an error that is raised
    later, the call counts as ended, with its result. ``cancel()`` is for a call that had no effect: it removes the
    record from the history.
    """

    def __init__(self, history: History, name: str, arguments: tuple[Any, ...]) -> None:
        self.history = history
        self.name = name
        self.arguments = arguments
        self.result: Any = UNKNOWN
        self.who = threading.current_thread().name
        self.began_at = self.ended_at = math.nan
        # Numbers, not times, order the starts and ends of all calls, because two readings of a clock can be equal.
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
        if kind is None and self.result is UNKNOWN:
            self.result = None
        if self.result is not UNKNOWN and self in self.history.calls:
            self.ended_at, self.ended = time.monotonic(), next(self.history.order)

    def cancel(self) -> None:
        """Remove the call from the history, because the call has had no effect, and will have none later."""
        self.history.calls.remove(self)


class History:
    """The calls of all clients. A history is thread-safe.

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
        """Return the record of a call, for a ``with`` statement around the call."""
        return Call(self, name, arguments)

    def recorded(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Return a function that calls ``fn`` and records the name, positional arguments and result of each call."""

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

        ``model(state, call)`` returns the state after a call, or ``IMPOSSIBLE`` if the call cannot have its result in
        ``state``. States are hashable, and ``initial`` is the first state. ``key(call)`` returns the key of a call.
        Each key has a state of its own, which makes the check much faster. Calls of different keys must be independent.
        ``real_time=False`` allows the moment of a call before its start or after its end: the history then only has to
        be *serializable*.
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
