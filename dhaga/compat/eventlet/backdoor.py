"""``eventlet.backdoor``: a Python prompt in the running program, on a socket."""

from __future__ import annotations

import logging
import sys
from typing import Any

from .._shared.prompt import talk
from .greenthread import spawn

__all__ = ["backdoor", "backdoor_server"]

logger: logging.Logger = logging.getLogger("dhaga")

HELP = 'Type "help", "copyright", "credits" or "license" for more information.'


def backdoor_server(sock: Any, locals: dict[str, Any] | None = None) -> None:
    """Give each client of a listener a prompt. Any client that can reach the address is accepted.

    ``locals`` holds the names that statements can use; all clients share it. Closes the listener.
    Parks: until the caller is killed or the listener is closed.
    """
    logger.warning("backdoor_server listens at %s: a client may do all that this program may", sock.getsockname())
    try:
        while True:
            spawn(backdoor, sock.accept(), locals)
    finally:
        sock.close()


def backdoor(conn_info: tuple[Any, Any], locals: dict[str, Any] | None = None) -> None:
    """Give one client a prompt, then close the connection. ``conn_info``: result of ``accept``.

    Parks: until the client leaves.
    """
    conn, _ = conn_info
    try:
        talk(conn, locals, f"Python {sys.version}\n{HELP}\n(InteractiveConsole)")
    except OSError as error:
        logger.debug("a client of the backdoor has gone: %s", error)
    finally:
        conn.close()
