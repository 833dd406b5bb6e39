"""``eventlet.dagpool``: greenthreads that wait for each other's results, by their keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from greenlet import getcurrent

from ..._sync.event import Event
from .greenthread import GreenThread, spawn

__all__ = ["Collision", "DAGPool", "PropagateError"]

ALL: Any = object()


class Collision(Exception):
    """A key has a greenthread, or a value, already; the text is the key."""


class PropagateError(Exception):
    """The greenthread of ``key`` ended with the error ``exc``."""

    def __init__(self, key: Hashable, exc: BaseException) -> None:
        super().__init__(key, exc)
        self.key = key
        self.exc = exc
        self.msg: str = f"PropagateError({key}): {type(exc).__name__}: {exc}"

    def __str__(self) -> str:
        return self.msg


class DAGPool:
    """Greenthreads with keys, which may wait for the values of other keys. Source: ``eventlet.dagpool.DAGPool``.

    ``preload``: initial values, a dict or pairs.
    """

    def __init__(self, preload: Any = ()) -> None:
        self.values: dict[Any, Any] = dict(preload)
        self.greenthreads: dict[Any, GreenThread] = {}
        self._pending: dict[Any, set[Any]] = {}
        self._posted = Event()

    # ---- starting

    def spawn(
        self, key: Hashable, depends: Iterable[Hashable], function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """Start ``function(key, results, *args, **kwargs)``. Its result, or its error, becomes the key's.

        ``results``: yields keys of ``depends`` with their values, as these come. Parks: never. Raises: Collision.
        """
        if key in self.greenthreads or key in self.values:
            raise Collision(key)
        pending = self._pending[key] = set(depends)
        self.greenthreads[key] = spawn(self._run, function, key, self._each(pending), args, kwargs)

    def spawn_many(
        self, depends: dict[Any, Iterable[Hashable]], function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> None:
        """Start a greenthread for each key of a dict; the value is the keys that it depends on. Raises: Collision."""
        for key, others in depends.items():
            self.spawn(key, others, function, *args, **kwargs)

    def _run(self, function: Callable[..., Any], key: Hashable, results: Any, args: Any, kwargs: Any) -> Any:
        try:
            value = function(key, results, *args, **kwargs)
        except Exception as error:
            value = PropagateError(key, error)
        finally:
            self._forget(key)
        if key not in self.values:  # else the function has posted a value, or another greenthread has after a kill
            self.post(key, value)
        return value

    def _forget(self, key: Hashable) -> None:
        if self.greenthreads.get(key) is getcurrent():
            del self.greenthreads[key], self._pending[key]

    def kill(self, key: Hashable) -> None:
        """Kill the greenthread of a key, which has no value then. Raises: KeyError."""
        greenthread = self.greenthreads.pop(key)
        del self._pending[key]
        greenthread.kill()

    def post(self, key: Hashable, value: Any, replace: bool = False) -> None:
        """Set the value of a key; ``replace``: even if it has one. A PropagateError is raised to callers that ask for
        the value.

        Parks: never. Raises: Collision if the key has a value, or the greenthread of another one.
        """
        running = self.greenthreads.get(key)
        if (running is not None and running is not getcurrent()) or (key in self.values and not replace):
            raise Collision(key)
        self.values[key] = value
        posted, self._posted = self._posted, Event()
        posted.set()

    # ---- waiting

    def waitall(self) -> dict[Any, Any]:
        """Wait for the values of all keys. Parks: until then. Raises: PropagateError."""
        return self.wait()

    def wait(self, keys: Iterable[Hashable] = ALL) -> dict[Any, Any]:
        """Return the values of the keys; by default of all known keys. Raises: PropagateError."""
        return dict(self.wait_each(keys))

    def wait_each(self, keys: Iterable[Hashable] = ALL) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values as they come. Parks: until the next one. Raises: PropagateError instead of a value."""
        return self._each(self._wanted(keys))

    def wait_each_success(self, keys: Iterable[Hashable] = ALL) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values as they come, and skip failed greenthreads."""
        return (pair for pair in self._each_raw(self._wanted(keys)) if not isinstance(pair[1], PropagateError))

    def wait_each_exception(self, keys: Iterable[Hashable] = ALL) -> Iterator[tuple[Any, Any]]:
        """Yield keys and PropagateErrors of failed greenthreads, as they come."""
        return (pair for pair in self._each_raw(self._wanted(keys)) if isinstance(pair[1], PropagateError))

    def _wanted(self, keys: Any) -> set[Any]:
        return self.greenthreads.keys() | self.values.keys() if keys is ALL else set(keys)

    def _each(self, pending: set[Any]) -> Iterator[tuple[Any, Any]]:
        for key, value in self._each_raw(pending):
            yield key, checked(value)

    def _each_raw(self, pending: set[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the outcomes of the keys, and remove these; ``pending`` always holds the missing keys."""
        while pending:
            posted = self._posted
            found = pending & self.values.keys()
            for key in found:
                pending.discard(key)
                yield key, self.values[key]
            if pending and not found:
                posted.wait()

    def __getitem__(self, key: Hashable) -> Any:
        """Return the value of a key. Parks: until it has one. Raises: PropagateError."""
        return self.wait([key])[key]

    # ---- state

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` while it has none. Raises: PropagateError."""
        return checked(self.values.get(key, default))

    def keys(self) -> tuple[Any, ...]:
        """Return the keys that have a value."""
        return tuple(self.values)

    def items(self) -> tuple[tuple[Any, Any], ...]:
        """Return the known keys and values. Raises: PropagateError."""
        return tuple((key, checked(value)) for key, value in self.values.items())

    def running(self) -> int:
        """Return the number of greenthreads that run or wait."""
        return len(self.greenthreads)

    def running_keys(self) -> tuple[Any, ...]:
        """Return the keys of the running greenthreads."""
        return tuple(self.greenthreads)

    def waiting(self) -> int:
        """Return the number of greenthreads that wait for missing values."""
        return len(self.waiting_for())

    def waiting_for(self, key: Hashable = ALL) -> Any:
        """Return the keys that a key's greenthread waits for; without a key, a dict for all keys. Raises: KeyError."""
        if key is not ALL:
            if key in self._pending:
                return self._pending[key] - self.values.keys()
            self.values[key]
            return set()
        left = {each: pending - self.values.keys() for each, pending in self._pending.items()}
        return {each: pending for each, pending in left.items() if pending}


def checked(value: Any) -> Any:
    """Return a value. Raises: PropagateError if it is one."""
    if isinstance(value, PropagateError):
        raise value
    return value
