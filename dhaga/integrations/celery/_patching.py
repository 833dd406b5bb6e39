"""The patch in Celery's worker: applied when Celery's command line imports this package, before its other parts.

``celery worker -P custom`` imports the pool before the app, so that all of the app is patched. A pool that the app's
``worker_pool`` names is imported after the app: names that the app has bound are replaced where possible. A program
that starts a worker itself patches itself: it calls ``dhaga.monkey.patch()`` first, or runs under ``python -m dhaga``.
"""

from __future__ import annotations

import sys

from ...monkey import PatchError, _doors

OWN_PACKAGES = ("celery", "kombu")
"""Packages that may be imported before the patch. Their classes derived from Thread follow the patch;
``celery._state._TLS``, derived from ``local``, need not: it keeps the current app, the same for all threads.
"""

NAME = "dhaga.integrations.celery:TaskPool"
OUR_POOLS = ("custom", "dhaga", NAME)
WAY_OUT = "`python -m dhaga -m celery -A … worker -P dhaga` patches before its first line"

obstacle: PatchError | None = None
"""Why this process could not be patched."""


def is_worker_command(argv: list[str]) -> bool:
    """Return whether these are the arguments of Celery's worker with our pool, or without a pool."""
    return _doors.program_of(argv) == "celery" and "worker" in argv[1:] and pool_of(argv) in (None, *OUR_POOLS)


def pool_of(argv: list[str]) -> str | None:
    """Return the pool that arguments name, in any form that Celery's command line accepts."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word in ("-P", "--pool"):
            return following
        if word.startswith("--pool="):
            return word.removeprefix("--pool=")
        if word.startswith("-P"):
            return word[2:]
    return None


def patch_worker() -> None:
    """Patch, if this process is Celery's worker."""
    global obstacle
    if is_worker_command(sys.argv):
        if not any(word.startswith("--workdir") for word in sys.argv):  # relative paths would mean others now
            _doors.restart_if_late(*OWN_PACKAGES)
        obstacle = _doors.patch_for_door(*OWN_PACKAGES)


def unpatched_line() -> str | None:
    """Return the log line of a pool that starts unpatched; None if the process is patched, or should not be."""
    if obstacle is None or _doors.is_patched():
        return None
    return _doors.unpatched_line("Celery's worker", obstacle, WAY_OUT)
