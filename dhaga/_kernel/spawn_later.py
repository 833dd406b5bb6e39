"""``spawn_later``: a dhaga that starts later, by the clock of its scheduler.

It is spawned at once, and parked (``spawn_later``) until its time has come: so a cancel, a join, a deadline of the
virtual clock, the dump and the interpreter's exit find it as any other dhaga that waits. Rejected: a NEW dhaga that a
timer admits. It saves 6 KB of stack, but adds a state that each of these would have to know.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

from greenlet import getcurrent

from .api import spawn
from .faces.arguments import check_delay, check_function
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
    """Start a dhaga that calls ``fn(*args, **kwargs)`` after ``seconds``; after an earlier ``cancel()`` it is not
    called.

    Until its start it is WAITING for ``spawn_later``; ``wake()`` starts it early. Interpreter exit waits for it, as for
    a ``threading.Timer``, unless it is a ``daemon``. Parks: never. From and options: as ``spawn``. Raises: TypeError,
    ValueError.

    >>> import dhaga
    >>> greeting = dhaga.spawn_later(0.01, "hello".upper)
    >>> reminder = dhaga.spawn_later(60, print, "time is up")
    >>> greeting.result(), reminder.cancel(), reminder.join()
    ('HELLO', True, None)
    """
    check_delay(seconds, "spawn_later")
    check_function(fn, "spawn_later")
    me: Any = getcurrent()
    scheduler = me.scheduler if isinstance(me, Dhaga) else current_scheduler()
    deadline = scheduler.clock() + seconds
    options: dict[str, Any] = {"name": name, "daemon": daemon, "priority": priority, "context": context}
    return spawn(call_later, deadline, fn, args, kwargs, **options)


@calls_out
def call_later(deadline: float, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    """Park until the deadline, then make the call. From: the dhaga that it is to be made in."""
    me: Any = getcurrent()
    scheduler = me.scheduler
    me.prepare_park("spawn_later", SLEEPING)
    entry = scheduler.timers.add(deadline, me)
    try:
        me.park_until_woken()
    finally:
        scheduler.timers.discard(entry)
    return fn(*args, **kwargs)
