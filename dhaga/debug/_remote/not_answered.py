"""Why a process does not answer a query."""

from __future__ import annotations

ADVICE = (
    "start it with DHAGA_DEBUG=1 in its environment, or call dhaga.debug.inspect() in it; a process started with "
    "DHAGA_DUMP_SIGNAL=USR1 writes a dump at kill -USR1"
)


class NotAnswered(Exception):
    """The process cannot be queried, or does not answer; the text gives the reason, and what to do."""


class ProcessEnded(NotAnswered):
    """The process has ended."""
