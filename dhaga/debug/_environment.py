"""Configure debugging by the environment, so that no line of a program need change.

``DHAGA_DEBUG=1``: an inspector and a watchdog; ``DHAGA_DUMP_SIGNAL=USR1``: a dump at that signal. ``dhaga`` imports
this module if one of them is set. What fails is logged as a warning, and the program goes on.
"""

from __future__ import annotations

import logging
import os

from ._dump_signal import dump_at
from ._remote.inspector import inspect
from ._watchdog import watch

logger = logging.getLogger("dhaga")

THRESHOLD = 0.1
"""Seconds, of the watchdog."""


def switch_on() -> None:
    """Start what the environment asks for."""
    try:
        if os.environ.get("DHAGA_DEBUG", "0") not in ("", "0"):
            inspect()
            watch(THRESHOLD)
        if signal := os.environ.get("DHAGA_DUMP_SIGNAL"):
            dump_at(signal, os.environ.get("DHAGA_DUMP_FILE"))
    except OSError as error:
        logger.warning("this process cannot be looked into as the environment asks for: %s", error)
