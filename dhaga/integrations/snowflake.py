"""Snowflake's connector on dhagas: ``install()`` makes each call to its core park where the core would wait.

Since version 5, a core written in Rust makes the connector's requests in threads of its own. A dhaga uses the
asynchronous form of each call, with ``dhaga.await_``, so that a cancel or a ``Timeout`` also ends the request. In a
patched program, a post-import hook calls ``install()`` as soon as the bridge to the core is imported. Earlier versions
wait in Python code, and need no replacement.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from snowflake.connector._internal.api_client.bridge import ProtoTransport

from .._kernel.wait.current import parking_waiter
from .._workers.offloaded_call import outside_call
from ..aio import await_

__all__ = ["install", "uninstall"]

LOCAL = ("_new", "_release", "_set_options", "_set_sql_query")
"""Endings of the names of calls that only change the core's memory. Finalizers make some of them, and must not park."""

_standard_handle_message = ProtoTransport.handle_message


def install() -> None:
    """Make calls on all connections park, including open connections. Plain OS threads block as before."""
    ProtoTransport.handle_message = handle_message


def uninstall() -> None:
    """Restore the standard method."""
    ProtoTransport.handle_message = _standard_handle_message


@wraps(_standard_handle_message)
def handle_message(self: Any, api: str, method: str, message: bytes) -> Any:
    """Make a call to the core. Parks: until the call ends (``await``), unless it only changes the core's memory."""
    me = None if method.endswith(LOCAL) else parking_waiter()
    if me is None:
        return _standard_handle_message(self, api, method, message)
    with outside_call(me):  # keeps a virtual clock from jumping, because the core's threads take real time
        return await_(self.handle_message_async(api, method, message))
