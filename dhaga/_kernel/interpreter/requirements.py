"""Dhaga's demands on the interpreter: no free-threaded build before 3.15, and the main interpreter. Imported first."""

from __future__ import annotations

import sys

FREE_THREADED = "t" in getattr(sys, "abiflags", "")
"""Whether this is a build without the interpreter lock (GIL). The build counts, and not whether the lock is on."""


def check_interpreter() -> None:
    """Check the running interpreter. Raises: ImportError, which says what to do, where Dhaga cannot work."""
    # Even with PYTHON_GIL=1 the collector of these builds frees functions under suspended greenlets before Python 3.15
    # (greenlet 3.5.6: a segmentation fault in each of five runs).
    if FREE_THREADED and sys.version_info < (3, 15):
        raise ImportError(
            "dhaga needs Python 3.15 or newer among free-threaded builds, and this is an older one:\n"
            "greenlet crashes there, PYTHON_GIL=1 included.\n"
            "Use python3.15t, or the ordinary build of the same version, whose name ends without a t: "
            f"python{sys.version_info[0]}.{sys.version_info[1]}",
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


def lock_is_on() -> bool:
    """Return whether the interpreter lock is on."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


check_interpreter()

if FREE_THREADED and getattr(sys.flags, "gil", None) is None:  # neither PYTHON_GIL=1 nor 0
    from .interpreter_lock import watch_lock

    watch_lock(lock_is_on)
