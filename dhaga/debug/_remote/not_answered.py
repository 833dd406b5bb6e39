"""Errors that explain why a process does not answer a query."""

from __future__ import annotations

ADVICE = (
    "start it with DHAGA_DEBUG=1 in its environment, or call dhaga.debug.inspect() in it; a process started with "
    "DHAGA_DUMP_SIGNAL=USR1 writes a dump at kill -USR1"
)


class NotAnswered(Exception):
    """Raised if a process cannot be queried or does not answer. The text gives the reason and the cure."""


class ProcessEnded(NotAnswered):
    """Raised if the process has ended."""
