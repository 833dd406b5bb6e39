"""``eventlet.backdoor``: not available."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["backdoor", "backdoor_server"]


def backdoor_server(sock: Any, locals: Any = None) -> NoReturn:
    """Refuse. Raises: NotImplementedError."""
    raise NotImplementedError(
        "a prompt on a socket is open to all who reach it: look into a running program by `python -m dhaga dump PID`"
    )


def backdoor(conn_info: Any, locals: Any = None) -> NoReturn:
    """Refuse. Raises: NotImplementedError."""
    backdoor_server(conn_info, locals)
