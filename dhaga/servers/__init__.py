"""Servers: a dhaga for each connection, in one process or in several."""

from __future__ import annotations

from ._tcp import Connection, TCPServer

__all__ = ["Connection", "TCPServer"]
