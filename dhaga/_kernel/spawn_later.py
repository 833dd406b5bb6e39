"""The function ``spawn_later``: a new dhaga calls a function after a delay. The scheduler's clock measures the delay.

The dhaga is spawned at once and parks (``spawn_later``) until the delay is over. So a cancel, a join, the virtual
clock, the dump and interpreter exit treat the dhaga like any other parked dhaga. Rejected: a timer that spawns the
dhaga. Such a timer would save 6 KB of stack, but each of these features would have to handle an additional state.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

from greenlet import getcurrent

from .api import spawn
from .faces.arguments import check_function, checked_delay
from .process.current_scheduler import current_scheduler
from .run.call_outs import calls_out
from .run.microthread import Dhaga
from .run.run_queues import NORMAL, Priority
from .wait.waiter import SLEEPING

R = TypeVar("R")


def spawn_later(
    seconds: float,
    fn: Callable[..., R],
    /,
    *args: Any,
    name: str | None = None,
    daemon: bool = False,
    priority: Priority = NORMAL,
    context: Context | None = None,
    **kwargs: Any,
) -> Dhaga[R]:
    """Start a dhaga that calls ``fn(*args, **kwargs)`` after ``seconds``. A ``cancel()`` in time prevents the call.

    Until the call the dhaga is WAITING for ``spawn_later``; ``wake()`` makes the call early. Interpreter exit waits for
    the dhaga, as for a ``threading.Timer``, unless it is a ``daemon``. Parks: never. From: the same callers as
    ``spawn``, with the same options. Raises: TypeError, ValueError.

    >>> import dhaga
    >>> greeting = dhaga.spawn_later(0.01, "hello".upper)
    >>> reminder = dhaga.spawn_later(60, print, "time is up")
    >>> greeting.result(), reminder.cancel(), reminder.join()
    ('HELLO', True, None)
    """
    seconds = checked_delay(seconds, "spawn_later")
    check_function(fn, "spawn_later")
    me: Any = getcurrent()
    scheduler = me.scheduler if isinstance(me, Dhaga) else current_scheduler()
    deadline = scheduler.clock() + seconds
    options: dict[str, Any] = {"name": name, "daemon": daemon, "priority": priority, "context": context}
    return spawn(call_later, deadline, fn, args, kwargs, **options)


@calls_out
def call_later(deadline: float, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    """Park until the deadline, then call ``fn``. From: the spawned dhaga."""
    me: Any = getcurrent()
    scheduler = me.scheduler
    me.prepare_park("spawn_later", SLEEPING)
    entry = scheduler.timers.add(deadline, me)
    try:
        me.park_until_woken()
    finally:
        scheduler.timers.discard(entry)
    return fn(*args, **kwargs)
