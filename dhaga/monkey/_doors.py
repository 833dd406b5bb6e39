"""The patch for the doors, which run other people's code: ``serve``, the gunicorn worker and Celery's pool.

They patch by default, so that blocking code serves many clients at once, and run unpatched if they cannot. By then the
door has imported its own packages, and names those that may keep unpatched names (``patch_after``).
"""

from __future__ import annotations

import os

from ._patcher import PatchError, is_patched, patch_after, refuse, replacements

__all__ = ["VARIABLE", "is_patched", "is_wanted", "obstacle", "patch_after", "patch_for_door", "unpatched_line"]

VARIABLE = "DHAGA_PATCH"
"""The environment variable that is 0 to keep the doors from patching."""


def is_wanted() -> bool:
    """Return whether the environment leaves the patch on."""
    return os.environ.get(VARIABLE, "1") != "0"


def obstacle() -> PatchError | None:
    """Return the error that a patch would raise now, without patching."""
    try:
        if not is_patched():
            refuse(replacements())
    except PatchError as error:
        return error
    return None


def patch_for_door(*known: str) -> PatchError | None:
    """Patch after the import of the packages ``known``, if the environment allows it. Returns: why it could not."""
    if is_wanted():
        try:
            patch_after(*known)
        except PatchError as error:
            return error
    return None


def unpatched_line(door: str, error: PatchError, way_out: str) -> str:
    """Return the line that a door logs once, at its start, if it could not patch."""
    return (
        f"{door} runs unpatched, so a call that blocks (time.sleep, a database driver) stops everything else that it "
        f"serves: {error}. {way_out}; if you want no patch, set {VARIABLE}=0"
    )
