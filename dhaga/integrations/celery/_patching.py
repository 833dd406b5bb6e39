"""The patch in Celery's worker: applied when Celery's command line imports this package, before its other parts.

``celery worker -P custom`` imports the pool before the app, so that all of the app is patched. A pool that the app's
``worker_pool`` names is imported after the app: what the app has bound is replaced where that can be. Programs that
start a worker decide for themselves: they call ``dhaga.monkey.patch()`` first, or run by ``python -m dhaga``.
"""

from __future__ import annotations

import os
import sys

from ...monkey import PatchError, _doors

OWN_PACKAGES = ("celery", "kombu")
"""May be imported before the patch. Their classes derived from Thread follow; ``celery._state._TLS``, derived from
``local``, keeps the current app for all threads alike.
"""

NAME = "dhaga.integrations.celery:TaskPool"
OUR_POOLS = ("custom", "dhaga", NAME)
WAY_OUT = "`python -m dhaga -m celery -A … worker -P dhaga` patches before its first line"

obstacle: PatchError | None = None
"""Why this process could not be patched."""


def is_worker_command(argv: list[str]) -> bool:
    """Report whether these are the arguments of Celery's worker, with no other pool than ours."""
    folder, name = os.path.split(argv[0] if argv else "")
    program = os.path.basename(folder) if name == "__main__.py" else name.removesuffix(".exe")
    return program == "celery" and "worker" in argv[1:] and pool_of(argv) in (None, *OUR_POOLS)


def pool_of(argv: list[str]) -> str | None:
    """Return the pool that arguments name, in each of the forms that Celery's command line takes."""
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
        obstacle = _doors.patch_for_door(*OWN_PACKAGES)


def unpatched_line() -> str | None:
    """Return what the pool logs as it starts; None if it is patched, or is not to be."""
    if obstacle is None or _doors.is_patched():
        return None
    return _doors.unpatched_line("Celery's worker", obstacle, WAY_OUT)
