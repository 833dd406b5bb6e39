"""Dhaga's demands on the interpreter: a build with the lock (GIL), and the main interpreter. Imported first."""

from __future__ import annotations

import sys


def check_interpreter() -> None:
    """Check the running interpreter. Raises: ImportError, which says what to do, where Dhaga cannot work."""
    # The build counts, and not whether the lock is on: even with PYTHON_GIL=1 the collector of this build frees
    # functions under suspended greenlets before Python 3.15 (greenlet 3.5.6: a segmentation fault in each of five
    # runs).
    if "t" in getattr(sys, "abiflags", ""):
        raise ImportError(
            "dhaga does not run on a free-threaded build of Python such as this one, PYTHON_GIL=1 included:\n"
            "greenlet crashes there before Python 3.15, and dhaga's locks and queues rely on the interpreter lock "
            "(GIL).\nUse the ordinary build of the same version, whose name ends without a t: "
            f"python{sys.version_info.major}.{sys.version_info.minor}",
            name="dhaga",
        )
    if is_subinterpreter():
        raise ImportError(
            "dhaga works only in the main interpreter, and this is a subinterpreter:\n"
            "signals do not reach it, and greenlet does not load in an isolated one.\n"
            "Import dhaga in the main interpreter, and call subinterpreters by dhaga.offload "
            "(mod_wsgi: WSGIApplicationGroup %{GLOBAL})",
            name="dhaga",
        )


def is_subinterpreter() -> bool:
    """Return whether this is a subinterpreter. The module used has no public counterpart before 3.14."""
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:  # built without it
        return False
    return bool(interpreters.get_current() != interpreters.get_main())


check_interpreter()
