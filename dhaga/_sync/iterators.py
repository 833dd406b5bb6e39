"""Iterators that dhagas share: each value goes to one dhaga, or to all of them. Source: Python 3.15's threading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar

from .lock import Lock

T = TypeVar("T")
P = ParamSpec("P")


class serialize_iterator(Generic[T]):
    """An iterator that runs one step at a time: a caller parks during another caller's step.

    So callers can share a generator that parks. Without this class, a second caller would get ValueError (already
    executing).
    Parks: while another caller's step runs (``lock.acquire``). Source: ``threading.serialize_iterator``.

    >>> numbers = serialize_iterator(n * n for n in range(3))
    >>> next(numbers), list(numbers)
    (0, [1, 4])
    """

    __slots__ = ("_iterator", "_lock")

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterator: Any = iter(iterable)
        self._lock = Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._lock:
            return next(self._iterator)  # type: ignore[no-any-return]

    def send(self, value: Any, /) -> T:
        """Send a value to a generator. Raises: AttributeError if the iterator has no ``send``."""
        with self._lock:
            return self._iterator.send(value)  # type: ignore[no-any-return]

    def throw(self, *args: Any) -> T:
        """Raise an error inside a generator. Raises: AttributeError if the iterator has no ``throw``."""
        with self._lock:
            return self._iterator.throw(*args)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close a generator. Raises: AttributeError if the iterator has no ``close``."""
        with self._lock:
            self._iterator.close()


def synchronized_iterator(func: Callable[P, Iterable[T]]) -> Callable[P, serialize_iterator[T]]:
    """Decorate a function that returns iterators, such as a generator function, to make the iterators serialized."""

    @wraps(func)
    def inner(*args: P.args, **kwargs: P.kwargs) -> serialize_iterator[T]:
        return serialize_iterator(func(*args, **kwargs))

    return inner


class TeeIterator(Generic[T]):
    """One iterator of ``concurrent_tee``. It follows a linked list of values, and reads the source at the list's end.

    A link is ``[value, next link]``, or ``[None, None]`` until the value has been read.
    """

    __slots__ = ("_iterator", "_link", "_lock")

    def __init__(self, source: Iterable[T] | TeeIterator[T]) -> None:
        if isinstance(source, TeeIterator):
            self._iterator: Iterator[T] = source._iterator
            self._link: list[Any] = source._link
            self._lock: Lock = source._lock
        else:
            self._iterator, self._link, self._lock = iter(source), [None, None], Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        link = self._link
        if link[1] is None:
            with self._lock:
                if link[1] is None:
                    link[0] = next(self._iterator)
                    link[1] = [None, None]  # set last, so that a reader that sees the link also sees the value
        value, self._link = link
        return value  # type: ignore[no-any-return]


def concurrent_tee(iterable: Iterable[T], n: int = 2) -> tuple[TeeIterator[T], ...]:
    """Return ``n`` iterators over the same values, each for one dhaga or thread.

    The iterators of ``itertools.tee`` are not safe for concurrent use. Parks: never; a step of a returned iterator
    parks while another iterator reads the source (``lock.acquire``). Raises: ValueError if n < 0. Source:
    ``threading.concurrent_tee``.
    """
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if n == 0:
        return ()
    first = TeeIterator(iterable)
    return (first, *(TeeIterator(first) for _ in range(n - 1)))
