"""``enter``: asynchronous context managers in a ``with`` block. One Task enters and leaves the manager."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from .._kernel.errors import Cancelled, Expired
from .._kernel.faces.arguments import check_seconds
from ._await import discard
from ._task_session import WAS_CANCELLED, TaskSession, can_wait

T = TypeVar("T")


def enter(
    manager: AbstractAsyncContextManager[T, Any] | Callable[[], AbstractAsyncContextManager[T, Any]],
    timeout: float | None = None,
) -> Block[T]:
    """Enter an asynchronous context manager: ``with enter(pool.acquire()) as connection: ...``.

    One Task enters and leaves the manager. If a function is given, such as ``enter(aiohttp.ClientSession)``, the Task
    calls this function to create the manager: some managers need the running loop, which a dhaga does not see. A cancel
    of the Task interrupts the block, so ``with enter(lambda: asyncio.timeout(1)):`` limits the block's time. A cancel
    of the dhaga reaches the manager as CancelledError. Parks: ``await``, at the beginning of the block for at most
    ``timeout`` seconds, and at its end. From: a dhaga, main code. Raises: TypeError, TimeoutError, ParkError.
    """
    if is_manager(manager) or not callable(manager):
        check_manager(manager)
    check_seconds(timeout)
    return Block(manager, timeout)


def is_manager(thing: object) -> bool:
    """Return whether an object is an asynchronous context manager."""
    return hasattr(type(thing), "__aenter__") and hasattr(type(thing), "__aexit__")


def check_manager(thing: object) -> None:
    """Raise TypeError unless an object is an asynchronous context manager."""
    if not is_manager(thing):
        discard(thing)
        plain = hasattr(type(thing), "__enter__")
        hint = "enter it with a plain with" if plain else "it has no __aenter__ and __aexit__"
        raise TypeError(f"{thing!r} is not an asynchronous context manager: {hint}")


class Block(Generic[T]):
    """A ``with`` block of an asynchronous context manager; see ``enter``."""

    def __init__(self, manager: object, timeout: float | None) -> None:
        self.manager: Any = manager
        self.timeout = timeout
        self.session: TaskSession | None = None

    def __repr__(self) -> str:
        return f"<Block of {self.manager!r}{', entered' if self.session else ''}>"

    def __enter__(self) -> T:
        if self.session is not None:
            raise RuntimeError(f"{self!r} is already entered: call enter() for each block")
        session = TaskSession(for_block=True)
        try:
            value: T = session.await_(self.timeout, self.begin)
        except BaseException:
            session.stop_and_wait()
            raise
        self.session = session
        return value

    async def begin(self) -> T:
        """Create the manager if a function was given, and enter the manager. From: the session's Task."""
        if not is_manager(self.manager):
            manager = self.manager()
            check_manager(manager)
            self.manager = manager
        return await type(self.manager).__aenter__(self.manager)  # type: ignore[no-any-return]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        session, self.session = self.session, None
        assert session is not None
        # In a generator that is dropped elsewhere, or closed by the garbage collector, this code may be unable to park.
        if not can_wait(session.scheduler):
            session.finish_unattended(self.leave, session, error)
            return False
        # The block has ended, so an interruption that was not raised must not be raised later.
        session.withdraw_interruption()
        pending = None
        if error is None and session.me.pending_errors:
            # A cancel that arrived within the block is raised at its end.
            pending = error = session.me.pending_errors.pop(0)
        try:
            handled = session.finish(self.leave, session, error)
            if handled is WAS_CANCELLED and not isinstance(error, Cancelled | Expired):
                raise session.me.pending_errors.pop(0)
        except CancelledError:
            if not isinstance(error, Cancelled | Expired):
                raise
            handled = False  # the manager got the dhaga's cancel as this CancelledError
        if error is None or (handled and handled is not WAS_CANCELLED):
            return bool(handled)
        if error is session.interruption:
            raise Cancelled("its Task was cancelled") from session.cancelled
        if error is pending:
            raise pending
        return False

    async def leave(self, session: TaskSession, error: BaseException | None) -> Any:
        """Leave the manager, which gets a cancel of the dhaga as CancelledError. From: the session's Task."""
        if error is not None and error is session.interruption:
            error = session.cancelled
        elif isinstance(error, Cancelled | Expired):
            try:
                session.calls[0].cancel()
                await asyncio.sleep(0)
            except CancelledError as cancelled:
                error = cancelled
        trace = None if error is None else error.__traceback__
        return await type(self.manager).__aexit__(self.manager, error and type(error), error, trace)
