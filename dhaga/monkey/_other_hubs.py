"""gevent and eventlet in a patched program: their hubs do not resume dhagas, and Dhaga does not resume their greenlets.

If gevent or eventlet has patched the program, Dhaga's patch is refused. If Dhaga has patched the program,
``_other_patches`` refuses their patches. The import of gevent or eventlet into a patched program is not an error,
because some packages import them only to check whether they are installed. A warning says that their hub blocks the OS
thread with all its dhagas, and that their thread pools never answer.
"""

from __future__ import annotations

import sys
import warnings

from .._kernel.errors import PatchError

PATCHERS = {"gevent": ("gevent.monkey", "saved"), "eventlet": ("eventlet.patcher", "already_patched")}
"""Each package's patching module, and the name of a dict in that module that is empty until the package patches."""

WAY_OUT = (
    "run the unchanged program with python -m dhaga --as {0} ..., or list what to change with python -m dhaga migrate"
)

warned: set[str] = set()


def is_ours(name: str) -> bool:
    """Return whether the imported package of this name is from ``dhaga.compat``, which has no hub of its own."""
    # The __name__ of dhaga.compat's package is the name of the original package.
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "name", name) != name


def refuse_other_patches() -> None:
    """Raise PatchError if gevent or eventlet has patched this program."""
    for name, (module, patched) in PATCHERS.items():
        if not is_ours(name) and getattr(sys.modules.get(module), patched, None):
            raise PatchError(
                f"{name} has patched this program already, and of two patches neither works: {WAY_OUT.format(name)}"
            )


def leave_out_imported() -> None:
    """Turn off warnings about packages already imported. From: a simulation, after tests that may import them."""
    warned.update(PATCHERS.keys() & sys.modules.keys())


def install() -> None:
    """Warn about each imported package of ``PATCHERS``. From: the post-import hook."""
    for name in PATCHERS.keys() & sys.modules.keys() - warned:
        if is_ours(name):
            continue
        warned.add(name)
        warnings.warn(
            f"{name} is imported into a program that dhaga has patched: when its hub runs, it blocks the OS "
            f"thread with all dhagas, and its thread pool never answers: {WAY_OUT.format(name)}",
            RuntimeWarning,
            stacklevel=3,  # the importer's frame, because ``warnings`` skips frames of importlib
        )


def uninstall() -> None:
    """Reset ``warned``, so that the next patch warns again."""
    warned.clear()
