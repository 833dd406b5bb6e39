"""Patches Celery's worker. The patch is applied when Celery's command line imports this package.

``celery worker -P custom`` imports the pool before the app, so the whole app is patched. A pool from the app's setting
``worker_pool`` is imported after the app. The patch then replaces the names that the app has already bound, where
possible. A program that starts a worker itself must patch itself: call ``dhaga.monkey.patch()`` first, or run under
``python -m dhaga``.
"""

from __future__ import annotations

import sys

from ...monkey import PatchError, _doors

OWN_PACKAGES = ("celery", "kombu")
"""Packages that may be imported before the patch. The patch changes their classes derived from Thread. The class
``celery._state._TLS``, derived from ``local``, can stay unchanged, because its current app is the same for all threads.
"""

NAME = "dhaga.integrations.celery:TaskPool"
OUR_POOLS = ("custom", "dhaga", NAME)
WAY_OUT = "`python -m dhaga -m celery -A … worker -P dhaga` patches before its first line"

obstacle: PatchError | None = None
"""The error that prevented the patch of this process, if any."""


def is_worker_command(argv: list[str]) -> bool:
    """Return whether ``argv`` starts Celery's worker with Dhaga's pool, or without naming a pool."""
    return _doors.program_of(argv) == "celery" and "worker" in argv[1:] and pool_of(argv) in (None, *OUR_POOLS)


def pool_of(argv: list[str]) -> str | None:
    """Return the pool that the arguments name, in any form that Celery's command line accepts."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word in ("-P", "--pool"):
            return following
        if word.startswith("--pool="):
            return word.removeprefix("--pool=")
        if word.startswith("-P"):
            return word[2:]
    return None


def patch_worker() -> None:
    """Patch this process if it is Celery's worker."""
    global obstacle
    if is_worker_command(sys.argv):
        if not any(word.startswith("--workdir") for word in sys.argv):  # the option changes the base of relative paths
            _doors.restart_if_late(*OWN_PACKAGES)
        obstacle = _doors.patch_for_door(*OWN_PACKAGES)


def unpatched_line() -> str | None:
    """Return the log line for a pool that starts unpatched, or None if the process is patched or needs no patch."""
    if obstacle is None or _doors.is_patched():
        return None
    return _doors.unpatched_line("Celery's worker", obstacle, WAY_OUT)
