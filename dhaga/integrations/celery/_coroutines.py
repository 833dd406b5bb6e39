"""Tasks that are coroutine functions (``async def``): the pool awaits their coroutines on the scheduler's loop.

Celery calls a task's function and stores the returned value. No result backend can encode a coroutine (celery #6552).
So ``awaiting`` replaces the task's function with one that awaits the coroutine in the task's dhaga. Limits, revokes,
retries and results work as for any task. A limit or a revoke first cancels the coroutine, and ends the task when the
coroutine has ended. All tasks of an OS thread share a loop, and may share asynchronous clients.

Celery looks up a task's request by the running greenlet. While a coroutine runs, this greenlet is the hub, so ``owner``
stores the task's dhaga. A direct call of a task's function, for example by another task, returns the coroutine, as
without Dhaga.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

from celery import _state
from greenlet import getcurrent

from ...aio import await_

__all__ = ["await_coroutines"]

owner: ContextVar[Any] = ContextVar("dhaga_celery_owner", default=None)
"""The worker dhaga that runs the current coroutine's task. Copies of the coroutine's context inherit this value."""


def await_coroutines(app: Any) -> None:
    """Replace the coroutine functions of an app's tasks. From: the start of a pool."""
    for task in app.tasks.values():
        # Replace the function inside Celery's wrapper for ``autoretry_for``: the wrapper must see a coroutine's error.
        name = "_orig_run" if hasattr(task, "_orig_run") else "run"
        function = getattr(task, name)
        if inspect.iscoroutinefunction(inspect.unwrap(function)) and not hasattr(function, "awaits"):
            setattr(task, name, awaiting(task, function))
            share_requests(task.request_stack)
            share_requests(_state._task_stack)


def awaiting(task: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the replacement of a task's function. A call by the worker awaits the function's coroutine."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        if not inspect.iscoroutine(value) or task.request.called_directly or owner.get() is not None:
            return value
        token = owner.set(getcurrent())
        try:
            return await_(value)
        finally:
            owner.reset(token)

    run.awaits = True  # type: ignore[attr-defined]
    return run


def share_requests(stack: Any) -> None:
    """Make a stack of requests use ``ident`` for its keys. With Celery's USE_FAST_LOCALS, do nothing."""
    if hasattr(stack, "__ident_func__"):
        stack.__ident_func__ = ident


def ident() -> Any:
    """Return the greenlet whose requests the caller sees."""
    return owner.get() or getcurrent()
