"""PyMySQL's connections: an error from outside that interrupts the sending of a query closes the connection.

PyMySQL itself closes the connection if the read of an answer is interrupted, or if a send fails with an OSError.
Without ``install()``, the server would take the next query for the rest of an interrupted one, and wait for more. In a
patched program, a post-import hook calls ``install()``.
"""

from __future__ import annotations

from pymysql.connections import Connection  # type: ignore[import-untyped]

from ._driver_methods import Methods, closing_if_interrupted

__all__ = ["install", "uninstall"]

methods = Methods(
    {(Connection, "_write_bytes"): closing_if_interrupted(Connection._write_bytes, Connection._force_close)}
)
install = methods.install
uninstall = methods.uninstall
