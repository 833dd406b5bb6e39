"""What Dhaga needs of the interpreter that imports it: its lock (GIL), and to be the main one. Imported first."""

from __future__ import annotations

import sys


def check_interpreter() -> None:
    """Check the running interpreter. Raises: ImportError, which says what to do, where Dhaga cannot work."""
    if not getattr(sys, "_is_gil_enabled", is_gil_enabled)():
        raise ImportError(
            "dhaga needs the interpreter lock (GIL), on which its locks and queues rely, and this free-threaded Python "
            "runs without it: start it with PYTHON_GIL=1 or -X gil=1, or take a build with the lock",
            name="dhaga",
        )
    if is_subinterpreter():
        raise ImportError(
            "dhaga works in the main interpreter alone, and this is a subinterpreter: signals do not reach it, and "
            "greenlet does not load in an isolated one. Import dhaga in the main interpreter, and call "
            "subinterpreters by dhaga.offload (mod_wsgi: WSGIApplicationGroup %{GLOBAL})",
            name="dhaga",
        )


def is_gil_enabled() -> bool:
    """Stand in for ``sys._is_gil_enabled`` of Python 3.13 and later."""
    return True


def is_subinterpreter() -> bool:
    """Report whether this is not the main interpreter, by a module that has no public counterpart before 3.14."""
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:  # built without it
        return False
    return bool(interpreters.get_current() != interpreters.get_main())


check_interpreter()
