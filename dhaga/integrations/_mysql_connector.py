"""Connections of mysql-connector-python in Python (``use_pure=True``): an error from outside closes the connection.

The driver expects no errors of deadlines and cancels. Without ``install()``, the server would take the next query for
the rest of an interrupted one, and a late answer could become the answer to the next query. In a patched program, a
post-import hook calls ``install()``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from mysql.connector.errors import Error
from mysql.connector.network import MySQLSocket

from ._driver_methods import Methods

__all__ = ["install", "uninstall"]


def closing(standard: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that closes the socket after an error that is not the driver's own."""

    @wraps(standard)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return standard(self, *args, **options)
        except Error:
            raise
        except BaseException:
            self.shutdown()
            raise

    return call


methods = Methods(
    {(MySQLSocket, "send"): closing(MySQLSocket.send), (MySQLSocket, "recv"): closing(MySQLSocket.recv)},
)
install = methods.install
uninstall = methods.uninstall
