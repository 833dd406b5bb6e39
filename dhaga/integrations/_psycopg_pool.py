"""Pools of psycopg (3): a getter that a deadline or a cancel interrupts receives no connection.

psycopg_pool hands each returned connection to the first getter in a queue. It skips a getter that has failed, but only
if the error is an ``Exception``. The errors of deadlines and cancels are not. Without ``install()``, an interrupted
getter would stay in the queue, and the pool would lose the connection that it hands to this getter. In a patched
program, a post-import hook calls ``install()``.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from psycopg_pool.pool import WaitingClient

from .._kernel.wait.current import running_waiter
from .._structured.shield import shield

__all__ = ["install", "uninstall"]

standard_wait = WaitingClient.wait


def install() -> None:
    """Replace the wait of the getters of all pools."""
    WaitingClient.wait = wait


def uninstall() -> None:
    """Restore the standard wait."""
    WaitingClient.wait = standard_wait


@wraps(standard_wait)
def wait(self: Any, timeout: Any) -> Any:
    """Wait for a connection. Parks: until the pool hands a connection over (``condition.wait``).

    After the hand-over, an error from outside stays pending until the next park.
    """
    try:
        standard_wait(self, timeout)
    except Exception:
        raise
    except BaseException as error:
        if running_waiter() is None:
            raise
        with shield(), self._cond:
            if self.conn is None:
                self.error = error
                raise
        defer(error)
    else:
        if self.error is not None:  # psycopg_pool 3.1.9 and 3.2.0 keep an error that comes after the hand-over
            defer(self.error)
    return self.conn


def defer(error: BaseException) -> None:
    """Keep an error from outside pending until the next park."""
    me = running_waiter()
    if me is None or isinstance(error, Exception):
        return
    if getattr(error, "scope", None) is None:  # a cancelled scope raises an error at each park
        me.cancel_with(error)
