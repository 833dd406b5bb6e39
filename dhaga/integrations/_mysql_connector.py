"""Connections of mysql-connector-python in Python (``use_pure=True``): an error from outside closes the connection.

The driver expects no errors of deadlines and cancels. Without ``install()``, the server would take the next query for
the rest of an interrupted one, and a late answer could become the answer to the next query. In a patched program, a
post-import hook calls ``install()``.
"""

from __future__ import annotations

from mysql.connector.errors import Error
from mysql.connector.network import MySQLSocket

from ._driver_methods import Methods, closing_if_interrupted

__all__ = ["install", "uninstall"]

methods = Methods(
    {
        (MySQLSocket, name): closing_if_interrupted(getattr(MySQLSocket, name), MySQLSocket.shutdown, (Error,))
        for name in ("send", "recv")
    }
)
install = methods.install
uninstall = methods.uninstall
