"""Snowflake's connector on dhagas: ``install()`` makes each call of its core park where the core would wait.

From version 5 on, the connector's requests are made by a core in Rust, on threads of its own. A call in a dhaga takes
the core's asynchronous form, by ``dhaga.await_``, so that a cancel or a ``Timeout`` also ends the request. Under
``dhaga.monkey.patch`` a post-import hook installs it as soon as the bridge to that core is imported. Earlier versions
wait in Python, and need no hook.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from snowflake.connector._internal.api_client.bridge import ProtoTransport

from .._kernel.wait.current import parking_waiter
from .._workers.offload import outside_call
from ..aio import await_

__all__ = ["install", "uninstall"]

LOCAL = ("_new", "_release", "_set_options", "_set_sql_query")
"""Endings of calls that only change the core's memory. Finalizers make some of them: these must not park."""

_standard_handle_message = ProtoTransport.handle_message


def install() -> None:
    """Make all connections of the process park, open ones included. A plain OS thread blocks as before."""
    ProtoTransport.handle_message = handle_message


def uninstall() -> None:
    """Restore the standard method."""
    ProtoTransport.handle_message = _standard_handle_message


@wraps(_standard_handle_message)
def handle_message(self: Any, api: str, method: str, message: bytes) -> Any:
    """Make a call of the core. Parks: until its end (``await``), unless it is local."""
    me = None if method.endswith(LOCAL) else parking_waiter()
    if me is None:
        return _standard_handle_message(self, api, method, message)
    with outside_call(me):  # a virtual clock stands still: the core's threads take real time
        return await_(self.handle_message_async(api, method, message))
