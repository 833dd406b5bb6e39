"""Debugging configured by environment variables, without a change to the program.

``DHAGA_DEBUG=1``: an inspector and a watchdog; ``DHAGA_DUMP_SIGNAL=USR1``: a dump at that signal. ``dhaga`` imports
this module if one of them is set. A failure is logged as a warning, and the program continues.
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
    """Start the tools that the environment variables name."""
    try:
        if os.environ.get("DHAGA_DEBUG", "0") not in ("", "0"):
            inspect()
            watch(THRESHOLD)
        if signal := os.environ.get("DHAGA_DUMP_SIGNAL"):
            dump_at(signal, os.environ.get("DHAGA_DUMP_FILE"))
    except OSError as error:
        logger.warning("the debugging tools that the environment asks for could not be started: %s", error)
