"""Starts debugging tools that environment variables request, without a change to the program.

``DHAGA_DEBUG=1`` starts an inspector and a watchdog. ``DHAGA_DUMP_SIGNAL=USR1`` makes the process write a dump at each
SIGUSR1. ``dhaga`` imports this module if either variable is set. If a tool cannot be started, a warning is logged, and
the program continues.
"""

from __future__ import annotations

import logging
import os

from ._dump_signal import dump_at
from ._remote.inspector import inspect
from ._watchdog import watch

logger = logging.getLogger("dhaga")

THRESHOLD = 0.1
"""The watchdog's threshold in seconds."""


def switch_on() -> None:
    """Start the tools that the environment variables request."""
    try:
        if os.environ.get("DHAGA_DEBUG", "0") not in ("", "0"):
            inspect()
            watch(THRESHOLD)
        if signal := os.environ.get("DHAGA_DUMP_SIGNAL"):
            dump_at(signal, os.environ.get("DHAGA_DUMP_FILE"))
    except (OSError, RuntimeError) as error:  # a bad path; no thread can be started
        logger.warning("the debugging tools that the environment asks for could not be started: %s", error)
