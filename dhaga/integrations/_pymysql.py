"""PyMySQL's connections: an error from outside that interrupts the sending of a query closes the connection.

PyMySQL itself closes the connection if the read of an answer is interrupted, or if a send fails with an OSError.
Without ``install()``, the server would take the next query for the rest of an interrupted one, and wait for more. In a
patched program, a post-import hook calls ``install()``.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from pymysql.connections import Connection  # type: ignore[import-untyped]

__all__ = ["install", "uninstall"]

standard_write: Any = Connection._write_bytes


def install() -> None:
    """Replace the method that sends, for all connections."""
    Connection._write_bytes = write


def uninstall() -> None:
    """Restore the standard method."""
    Connection._write_bytes = standard_write


@wraps(standard_write)
def write(self: Any, data: Any) -> None:
    """Send data. Parks: while the send buffer is full (``write fd N``)."""
    try:
        standard_write(self, data)
    except BaseException:
        self._force_close()
        raise
