"""Tasks that are coroutine functions (``async def``): the pool awaits them, on the loop of their scheduler.

Celery calls a task's function, and stores what it returns: a coroutine, which no result backend can encode (celery
#6552). Here ``awaiting`` puts a function in front of it that awaits the coroutine in the task's dhaga. So limits,
revokes, retries and results are those of any task; a limit or a revoke cancels the coroutine, and ends the task once
that has ended. All tasks of an OS thread share a loop, and may share asynchronous clients.

Celery finds the request of a task by the greenlet that asks. A coroutine runs on the hub: ``owner`` names its dhaga.
Where a task's function is called directly, as by another task, it returns its coroutine as ever.
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
"""The worker dhaga whose task the coroutine is, in its context and in those that are copied from it."""


def await_coroutines(app: Any) -> None:
    """Replace the functions of an app's tasks that are coroutine functions. From: the start of a pool."""
    for task in app.tasks.values():
        # Below Celery's wrapper for ``autoretry_for``, which has to see the coroutine's error.
        name = "_orig_run" if hasattr(task, "_orig_run") else "run"
        function = getattr(task, name)
        if inspect.iscoroutinefunction(inspect.unwrap(function)) and not hasattr(function, "awaits"):
            setattr(task, name, awaiting(task, function))
            share_requests(task.request_stack)
            share_requests(_state._task_stack)


def awaiting(task: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a task's function that awaits the coroutine, where the worker calls it."""

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
    """Key a stack of requests by ``ident``; no-op with Celery's USE_FAST_LOCALS."""
    if hasattr(stack, "__ident_func__"):
        stack.__ident_func__ = ident


def ident() -> Any:
    """Return the greenlet whose requests the caller sees."""
    return owner.get() or getcurrent()
