"""``run_in_dhaga``: call functions that park from coroutines.

A coroutine runs on the hub, where parking raises ParkError. ``run_in_dhaga`` spawns a dhaga for the call and awaits it;
it is the mirror of ``await_``, and both pass cancels on. The dhaga is *running*, or *cancelled* by the coroutine's own
cancel, which is remembered, so that the coroutine ends as asyncio expects: with CancelledError, not Cancelled. Any
coroutine may call it: a loop without a scheduler gets a guest scheduler.

Rejected: ``await spawn(...)`` as the whole answer. A cancel of the coroutine leaves that dhaga running.
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
async def run_in_dhaga(fn: Callable[..., T], /, *args: Any, scheduler: Scheduler | None = None, **options: Any) -> T:  # type: ignore[misc]  # P.kwargs may name ours
    """Call ``fn(*args)`` in a dhaga and await its result: the way from a coroutine to code that parks.

    The dhaga belongs to the scheduler of the coroutine's loop and shares its context; on another ``scheduler`` it gets
    a copy. ``options``: those of ``spawn``. A cancel of the coroutine cancels the dhaga and awaits its end; a value
    that it nevertheless returns is returned. Raises: what ``fn`` raises; TypeError, RuntimeError.

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
            if dhaga.has_ended:  # its own CancelledError, or it ended at the moment of this cancel
                raise
            requested = error
            dhaga.cancel(*error.args)
        except Cancelled:
            if requested is None:
                raise
            raise requested from None
