"""The patch for the doors, which run other people's code: ``serve``, the gunicorn worker and Celery's pool.

They patch by default, so that blocking code serves many clients at once. By then the door has imported its own
packages, and names those that may keep unpatched names (``patch_after``). If something else came too early, such as an
agent's threads, the command restarts itself with an early patch (``_early``). If that fails too, ``serve`` refuses to
start, and the others run unpatched, unless the environment requires the patch.
"""

from __future__ import annotations

import os

from . import _early
from ._patcher import PatchError, is_patched, patch_after, refuse, replacements

__all__ = [
    "VARIABLE",
    "is_patched",
    "is_required",
    "is_wanted",
    "obstacle",
    "patch_after",
    "patch_for_door",
    "program_of",
    "refusal_line",
    "restart_if_late",
    "unpatched_line",
]

VARIABLE = "DHAGA_PATCH"
"""The environment variable: ``0`` keeps the doors from patching, ``require`` from running unpatched."""


def is_wanted() -> bool:
    """Return whether the environment leaves the patch on."""
    return os.environ.get(VARIABLE, "1") != "0"


def is_required() -> bool:
    """Return whether the environment refuses a door that runs unpatched."""
    return os.environ.get(VARIABLE) == "require"


def obstacle(*known: str) -> PatchError | None:
    """Return the error that a patch after the import of the packages ``known`` would raise now, without patching."""
    try:
        if not is_patched():
            refuse(replacements(), known)
    except PatchError as error:
        return error
    return None


def patch_for_door(*known: str) -> PatchError | None:
    """Patch after the import of the packages ``known``, if the environment allows it.

    Returns: why it could not. Raises: that error, if the environment requires the patch.
    """
    if is_wanted():
        try:
            patch_after(*known)
        except PatchError as error:
            if is_required():
                raise
            return error
    return None


def program_of(argv: list[str]) -> str:
    """Return the name of the program with these arguments: of its script, or of the package run by ``-m``."""
    folder, name = os.path.split(argv[0] if argv else "")
    return os.path.basename(folder) if name == "__main__.py" else name.removesuffix(".exe")


def restart_if_late(*known: str, folder: str | None = None) -> None:
    """Restart the process with an early patch, if a patch is wanted, would come too late now, and may come early after
    a restart.

    From: the process of a command that has not begun its work. ``folder``: see ``_early.restart``.
    """
    if is_wanted() and _early.can_restart() and obstacle(*known) is not None:
        _early.restart(folder=folder)


def unpatched_line(door: str, error: PatchError, way_out: str) -> str:
    """Return the line that a door logs once, at its start, if it could not patch."""
    return (
        f"{door} runs unpatched, so a call that blocks (time.sleep, a database driver) stops everything else that it "
        f"serves: {error}. {way_out}; if you want no patch, set {VARIABLE}=0"
    )


def refusal_line(door: str, error: PatchError, way_out: str) -> str:
    """Return the line with which a door ends if it must be patched and cannot be."""
    return f"{door} is not started, as it would run unpatched: {error}. {way_out}"
