"""The names of the environment variables that the package reads, and a warning about misspelled names.

Each module reads its own variables; ``docs/reference/environment.md`` describes them. A test compares the names here
with the source and with that page. Other programs may have variables with the same prefix, so a name causes a warning
only if it resembles a known name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .similar_names import most_similar

logger = logging.getLogger("dhaga")

PREFIX = "DHAGA_"

RESTARTED = "DHAGA_EARLY"
"""The variable that a process sets for itself when it restarts (``monkey/_early.py``)."""

KNOWN = frozenset(
    {
        *("DHAGA_CHUNKS", "DHAGA_DEBUG", "DHAGA_DUMP_FILE", "DHAGA_DUMP_SIGNAL", "DHAGA_FAST_PATHS", "DHAGA_PATCH"),
        *("DHAGA_POLLER", "DHAGA_PREEMPT", "DHAGA_PURE", "DHAGA_REAL_THREADS", RESTARTED),
    }
)
"""All variables with the prefix that the package reads."""


def warn_of_misspelled(environ: Iterable[str]) -> None:
    """Log a warning about each variable whose name resembles a known name. From: the import of the package.

    A restarted process has already logged its warnings. The scan of 100 variables takes 40 µs.
    """
    unknown = {name for name in environ if name[:6].upper() == PREFIX} - KNOWN
    if not unknown or RESTARTED in environ:
        return
    bare = {name.removeprefix(PREFIX): name for name in KNOWN}  # with the prefix, all names would be similar
    for name in sorted(unknown):
        meant = most_similar(name[6:].upper(), bare)
        if meant is not None:
            logger.warning("Dhaga does not read the environment variable %s: did you mean %s?", name, bare[meant])
