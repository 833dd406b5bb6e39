"""``aiter_``: asynchronous iterables in a ``for`` loop. One Task makes all steps."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any, TypeVar

from .._kernel.faces.arguments import check_seconds
from ._await import discard
from ._task_session import TaskSession, can_wait

T = TypeVar("T")


def aiter_(iterable: AsyncIterable[T], timeout: float | None = None) -> Iterator[T]:
    """Iterate over an asynchronous iterable: ``for row in aiter_(cursor): ...``. One Task makes all steps.

    If the caller closes or drops the iterator, for example with ``break``, the iterator calls ``aclose()`` of an
    asynchronous generator and waits for the end of this call. A finalizer that cannot park only starts ``aclose()``.
    Parks: ``await``, for at most ``timeout`` seconds for each item. From: a dhaga, main code.
    Raises: errors of the iterable; TypeError, TimeoutError, ParkError.
    """
    if not hasattr(type(iterable), "__aiter__"):
        discard(iterable)
        hint = "iterate over it with a plain for" if hasattr(type(iterable), "__iter__") else "it has no __aiter__"
        raise TypeError(f"{iterable!r} is not an asynchronous iterable: {hint}")
    check_seconds(timeout)
    return steps(iterable.__aiter__(), timeout)


def steps(iterator: AsyncIterator[T], timeout: float | None) -> Iterator[T]:
    """Yield the items of an asynchronous iterator, and finally close the iterator in the same Task."""
    session = TaskSession(for_block=False)
    try:
        while True:
            try:
                item = session.await_(timeout, type(iterator).__anext__, iterator)
            except StopAsyncIteration:
                return
            yield item
    finally:
        close(session, iterator)


def close(session: TaskSession, iterator: Any) -> None:
    """Close the iterator in its session, and stop the session. If the caller can park, wait for ``aclose()``."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        session.scheduler.call(session.stop)
    elif can_wait(session.scheduler):
        session.finish(aclose)
    else:
        session.finish_unattended(aclose)
