"""Checks that Dhaga works on this interpreter. Dhaga works neither in subinterpreters nor on free-threaded builds
before 3.15.

This module is imported before all others.
"""

from __future__ import annotations

import sys

FREE_THREADED = "t" in getattr(sys, "abiflags", "")
"""Whether this build runs without the interpreter lock (GIL) by default. True even while the lock is turned on."""


def check_interpreter() -> None:
    """Check the running interpreter. Raises: ImportError, with the remedy, on an interpreter that Dhaga cannot use."""
    # Before Python 3.15, even with PYTHON_GIL=1, the garbage collector of free-threaded builds frees functions that
    # suspended greenlets still use. With greenlet 3.5.6 each of five runs ended with a segmentation fault.
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
    """Return whether this interpreter is a subinterpreter. The private module has no public counterpart before CPython
    3.14.
    """
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:  # built without the module
        return False
    return bool(interpreters.get_current() != interpreters.get_main())


def lock_is_on() -> bool:
    """Return whether the interpreter lock is on."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


check_interpreter()

if FREE_THREADED and getattr(sys.flags, "gil", None) is None:  # PYTHON_GIL is neither 0 nor 1
    from .interpreter_lock import watch_lock

    watch_lock(lock_is_on)
