"""Switches: what the environment asks for, so that no line of a program need be changed.

``DHAGA_DEBUG=1``: an inspector, and a watchdog; ``DHAGA_DUMP_SIGNAL=USR1``: a dump at that signal. ``dhaga`` imports
this where one of them is set. What cannot be had is told by a warning, and the program goes on.
"""

from __future__ import annotations

import logging
import os

from .inspector import inspect
from .signals import dump_at
from .watchdog import watch

logger = logging.getLogger("dhaga")

THRESHOLD = 0.1
"""Of the watchdog, in seconds."""


def switch_on() -> None:
    """Do what the environment asks for."""
    try:
        if os.environ.get("DHAGA_DEBUG", "0") not in ("", "0"):
            inspect()
            watch(THRESHOLD)
        if signal := os.environ.get("DHAGA_DUMP_SIGNAL"):
            dump_at(signal, os.environ.get("DHAGA_DUMP_FILE"))
    except OSError as error:
        logger.warning("this process cannot be looked into as the environment asks for: %s", error)
