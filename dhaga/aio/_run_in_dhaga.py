"""``run_in_dhaga``, which coroutines use to call functions that park.

A coroutine runs on the hub, where parking raises ParkError. ``run_in_dhaga`` spawns a dhaga for the call and awaits it.
A cancel of the coroutine cancels the dhaga. The coroutine's CancelledError is stored, because asyncio expects the
coroutine to end with this error, not with the dhaga's Cancelled. Any coroutine may call ``run_in_dhaga``: a loop
without a scheduler gets a guest scheduler, which runs dhagas on that loop.

Rejected: plain ``await spawn(...)``, because a cancel of the coroutine would leave the dhaga running.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from contextvars import Context
from typing import Any, ParamSpec, TypeVar, overload

from greenlet import getcurrent

from .._kernel.api import spawn
from .._kernel.errors import Cancelled
from .._kernel.run.microthread import Dhaga
from .._kernel.run.run_queues import Priority
from .._kernel.run.scheduler import Scheduler
from .._kernel.wait.current import check_own_loop

P = ParamSpec("P")
T = TypeVar("T")


@overload
async def run_in_dhaga(
    fn: Callable[..., T],
    /,
    *args: Any,
    scheduler: Scheduler | None,
    name: str | None = ...,
    daemon: bool = ...,
    priority: Priority = ...,
    context: Context | None = ...,
    **kwargs: Any,
) -> T: ...
@overload
async def run_in_dhaga(
    fn: Callable[..., T],
    /,
    *args: Any,
    name: str | None,
    daemon: bool = ...,
    priority: Priority = ...,
    context: Context | None = ...,
    **kwargs: Any,
) -> T: ...
@overload
async def run_in_dhaga(
    fn: Callable[..., T],
    /,
    *args: Any,
    daemon: bool,
    priority: Priority = ...,
    context: Context | None = ...,
    **kwargs: Any,
) -> T: ...
@overload
async def run_in_dhaga(
    fn: Callable[..., T], /, *args: Any, priority: Priority, context: Context | None = ..., **kwargs: Any
) -> T: ...
@overload
async def run_in_dhaga(fn: Callable[..., T], /, *args: Any, context: Context | None, **kwargs: Any) -> T: ...
@overload
async def run_in_dhaga(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
async def run_in_dhaga(fn: Callable[..., T], /, *args: Any, scheduler: Scheduler | None = None, **options: Any) -> T:  # type: ignore[misc]  # P.kwargs may contain these names
    """Call ``fn(*args)`` in a dhaga and await its result, so that a coroutine can call code that parks.

    The dhaga belongs to the scheduler of the coroutine's loop, and shares the coroutine's context. On another
    ``scheduler``, the dhaga has a copy of the context. ``options`` are options of ``spawn``. If the coroutine is
    cancelled, it cancels the dhaga and awaits the dhaga's end. If the dhaga returns a value nevertheless, this value is
    returned.
    Raises: errors of ``fn``; TypeError, RuntimeError.

    >>> import asyncio, dhaga.aio
    >>> asyncio.run(dhaga.aio.run_in_dhaga(sum, [1, 2]))
    3
    """
    me = getcurrent()
    if isinstance(me, Dhaga) and scheduler in (None, me.scheduler):
        check_own_loop()
    if scheduler is None:
        dhaga = spawn(fn, *args, **{"context": me.gr_context, **options})
    else:
        dhaga = scheduler.spawn(fn, *args, **options)
    requested: CancelledError | None = None
    while True:
        try:
            return await dhaga
        except CancelledError as error:
            if dhaga.has_ended:  # the dhaga has raised this CancelledError, or has ended just before the cancel
                raise
            requested = error
            dhaga.cancel(*error.args)
        except Cancelled:
            if requested is None:
                raise
            raise requested from None
