"""Servers for TCP and Unix sockets that run a dhaga for each connection, in one process or in several processes."""

from __future__ import annotations

from ._tcp import Connection, TCPServer

__all__ = ["Connection", "TCPServer"]
