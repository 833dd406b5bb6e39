"""The search for an order of calls that explains their results.

Source: J. Wing, C. Gong: Testing and Verifying Concurrent Objects (1993), for the search. G. Lowe: Testing for
Linearizability (2017), for the set of configurations already seen. A. Horn, D. Kroening: Faster Linearizability
Checking via P-Compositionality (2015), for the separate search by keys in ``History.check``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final


class Impossible:
    """The class of ``IMPOSSIBLE``."""

    def __repr__(self) -> str:
        return "IMPOSSIBLE"


class Unknown:
    """The class of ``UNKNOWN``."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN: Final = Unknown()
"""The result of a call that raised or has not ended. Its effect may have happened, or may happen later or never."""

IMPOSSIBLE: Final = Impossible()
"""The answer of a model if a call cannot have its result in the given state."""

Model = Callable[[Any, Any], Hashable]
"""A function of a state and a call. Returns: the state after the call, or ``IMPOSSIBLE``."""


class Search:
    """A search over the calls of a history, or over its calls with one key.

    A configuration is the set of the calls already placed in the order (the bits of a number), and the state after
    these calls. ``longest``: the calls of the longest order found. ``state``: the state after that order. ``refused``:
    the calls that could come next by their times, but have results that do not fit ``state``.
    """

    def __init__(self, calls: Sequence[Any], model: Model, real_time: bool = True) -> None:
        self.calls = sorted(calls, key=attrgetter("began"))
        self.model = model
        self.real_time = real_time
        # A call without an end need not be placed in the order.
        self.wanted = sum(1 << place for place, call in enumerate(self.calls) if call.ended < math.inf)
        self.longest: list[Any] = []
        self.state: Any = None
        self.refused: list[Any] = []

    def next_places(self, taken: int) -> Iterator[int]:
        """Yield the places of the calls that may come next: no remaining call ended before they began."""
        first_end = math.inf
        # All calls before the lowest zero bit of ``taken`` are already in the order.
        for place in range((~taken & (taken + 1)).bit_length() - 1, len(self.calls)):
            call = self.calls[place]
            if self.real_time and call.began > first_end:
                return
            if not taken >> place & 1:
                first_end = min(first_end, call.ended)
                yield place

    def explains(self, initial: Hashable) -> bool:
        """Return whether some order explains the results."""
        self.state, self.refused = initial, [self.calls[place] for place in self.next_places(0)]
        seen: set[tuple[int, Any]] = set()
        path: list[int] = []
        # Each entry describes a configuration on the path: the calls made so far, the state, and the next calls to try.
        stack: list[tuple[int, Any, Iterator[int]]] = [(0, initial, self.next_places(0))]
        while stack:
            taken, state, places = stack[-1]
            if taken & self.wanted == self.wanted:
                return True
            for place in places:
                following = self.model(state, self.calls[place])
                configuration = taken | 1 << place, following
                if following is not IMPOSSIBLE and configuration not in seen:
                    seen.add(configuration)
                    path.append(place)
                    stack.append((*configuration, self.next_places(configuration[0])))
                    self.note(path, *configuration)
                    break
            else:
                stack.pop()
                if path:
                    path.pop()
        return False

    def note(self, path: Sequence[int], taken: int, state: Any) -> None:
        """Keep this order if it is the longest so far, for the report."""
        if len(path) > len(self.longest):
            self.longest = [self.calls[place] for place in path]
            self.state = state
            self.refused = [self.calls[place] for place in self.next_places(taken)]


def registers(value: Any, call: Any) -> Hashable:
    """Model one value of a store: ``put(key, value)``, ``get(key) -> value``, ``swap(key, old, new) -> bool``.

    Pass ``key=lambda call: call.arguments[0]`` to ``check()``. A call with an unknown result can have any result.
    """
    unknown = call.result is UNKNOWN
    if call.name == "put":
        return call.arguments[1]  # type: ignore[no-any-return]
    if call.name == "get":
        return value if unknown or call.result == value else IMPOSSIBLE
    if call.name == "swap":
        _, old, new = call.arguments
        swaps = value == old
        return (new if swaps else value) if unknown or call.result == swaps else IMPOSSIBLE
    raise ValueError(f"registers() knows put, get and swap, and not {call.name!r}: write a model of your own")
