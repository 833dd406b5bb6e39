"""``eventlet.backdoor``: a Python prompt on a socket, in the running program."""

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
    """Give each client of a listener a prompt: anyone who reaches the address gets in. ``locals``: the names it has.

    Parks: until it is killed, or the listener is closed. Closes the listener.
    """
    logger.warning("backdoor_server listens at %s: a client may do all that this program may", sock.getsockname())
    try:
        while True:
            spawn(backdoor, sock.accept(), locals)
    finally:
        sock.close()


def backdoor(conn_info: tuple[Any, Any], locals: dict[str, Any] | None = None) -> None:
    """Give one client a prompt. ``conn_info``: the result of ``accept``. Parks: until the client leaves. Closes it."""
    conn, _ = conn_info
    try:
        talk(conn, locals, f"Python {sys.version}\n{HELP}\n(InteractiveConsole)")
    except OSError as error:
        logger.debug("a client of the backdoor has gone: %s", error)
    finally:
        conn.close()
