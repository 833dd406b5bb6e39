"""Patching by the doors, the commands that run other people's code: ``serve``, the gunicorn worker and Celery's pool.

A door patches by default, so that blocking code serves many clients at once. Before the patch, a door has already
imported some packages of its own. The door passes their names to ``patch_after``, which allows them to precede the
patch. If something else precedes the patch, such as the threads of a monitoring agent, the door restarts its process
with an early patch (``_early``). If the early patch also fails, the door logs a warning and runs unpatched. If the
patch is required, the door refuses to run instead.
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
"""The environment variable. With ``0``, the doors do not patch; with ``require``, they refuse to run unpatched."""


def is_wanted() -> bool:
    """Return whether the environment allows the doors to patch."""
    return os.environ.get(VARIABLE, "1") != "0"


def is_required() -> bool:
    """Return whether the environment forbids a door to run unpatched."""
    return os.environ.get(VARIABLE) == "require"


def obstacle(*known: str) -> PatchError | None:
    """Return the error that ``patch_after(*known)`` would raise now, or None. Nothing is patched."""
    try:
        if not is_patched():
            refuse(replacements(), known)
    except PatchError as error:
        return error
    return None


def patch_for_door(*known: str) -> PatchError | None:
    """Patch although the packages ``known`` are already imported, if the environment allows the patch.

    Returns: the error of a failed patch, or None. Raises: this error instead, if the environment requires the patch.
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
    """Return the name of the program with these arguments: its script's name, or the package that ``-m`` runs."""
    folder, name = os.path.split(argv[0] if argv else "")
    return os.path.basename(folder) if name == "__main__.py" else name.removesuffix(".exe")


def restart_if_late(*known: str, folder: str | None = None) -> None:
    """Restart the process with an early patch, if a wanted patch would now come too late and a restart is possible.

    From: the process of a command that has not begun its work. ``folder``: see ``_early.restart``.
    """
    if is_wanted() and _early.can_restart() and obstacle(*known) is not None:
        _early.restart(folder=folder)


def unpatched_line(door: str, error: PatchError, way_out: str) -> str:
    """Return the line that a door logs once at its start if it could not patch."""
    return (
        f"{door} runs unpatched, so a call that blocks (time.sleep, a database driver) stops everything else that it "
        f"serves: {error}. {way_out}; if you want no patch, set {VARIABLE}=0"
    )


def refusal_line(door: str, error: PatchError, way_out: str) -> str:
    """Return the error line of a door that must be patched but cannot be."""
    return f"{door} is not started, because it would run unpatched: {error}. {way_out}"
