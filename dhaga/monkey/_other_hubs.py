"""gevent and eventlet beside the patch: their hubs run in their own greenlets, and neither side resumes the other's.

After a patch of theirs, Dhaga's patch is refused; after Dhaga's, ``_other_patches`` refuses theirs. Their import into a
patched program is no error, since packages import them to check whether they are installed. A warning says that their
hub blocks the OS thread with all its dhagas, and that their thread pools never answer.
"""

from __future__ import annotations

import sys
import warnings

from .._kernel.errors import PatchError

PATCHERS = {"gevent": ("gevent.monkey", "saved"), "eventlet": ("eventlet.patcher", "already_patched")}
"""The packages, each with the module that patches, and the dictionary in it that is empty until then."""

WAY_OUT = (
    "run the unchanged program with python -m dhaga --as {0} ..., or list what to change with python -m dhaga migrate"
)

warned: set[str] = set()


def is_ours(name: str) -> bool:
    """Return whether the package of this name is from ``dhaga.compat``, which has no hub of its own."""
    # Its __name__ is the foreign one.
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "name", name) != name


def refuse_other_patches() -> None:
    """Raise PatchError if gevent or eventlet has patched this program."""
    for name, (module, patched) in PATCHERS.items():
        if not is_ours(name) and getattr(sys.modules.get(module), patched, None):
            raise PatchError(
                f"{name} has patched this program already, and of two patches neither works: {WAY_OUT.format(name)}"
            )


def leave_out_imported() -> None:
    """Do not warn about the hubs that are imported already: a patch of a simulation is for other code."""
    warned.update(PATCHERS.keys() & sys.modules.keys())


def install() -> None:
    """Warn about each imported hub. From: the post-import hook."""
    for name in PATCHERS.keys() & sys.modules.keys() - warned:
        if is_ours(name):
            continue
        warned.add(name)
        warnings.warn(
            f"{name} is imported into a program that dhaga has patched: where its hub runs it blocks the OS thread, "
            f"with all dhagas, and its thread pool never answers: {WAY_OUT.format(name)}",
            RuntimeWarning,
            stacklevel=3,  # the importer: warnings skips the frames of importlib
        )


def uninstall() -> None:
    """Warn again under the next patch."""
    warned.clear()
