"""C libraries that call Python with a lock of the OS thread held: no turn ends beneath such a call.

Another dhaga that called the library would wait in C for that lock, and with it all dhagas of the OS thread, for good.
A C function leaves no Python frame: the functions that it calls look as if the program had called them. So the C stack
is read: ``_Unwind_Backtrace`` gives the return addresses, ``dladdr`` the library of each.
Only where such a library was imported, at each end of a turn: 0.3 ms where a request is handled, 20 µs a frame of C.
Rejected: no turn ends beneath any library. wrapt, through which agents wrap each view, is one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from greenlet import _greenlet

from ..platform.system import system

LOCKING = {"lxml.etree": "lxml"}
"""Packages whose C code calls Python with a lock held: the folder of each, by a module that imports it.

lxml: the lock of a parser, an XPath or an XSLT at ``read``, targets, resolvers, extension functions. Tried by callbacks
that compute in several threads, and free of such a lock: sqlite3, expat, ctypes, json, pickle, re.
"""

ACCELERATOR = ("_fast_paths", "_frame_chunks")

GO_ON, END = 0, 4
"""Answers to the unwinder: ``_URC_NO_REASON``, ``_URC_END_OF_STACK``."""


def hold_lock() -> bool:
    """Return whether the caller's code is beneath a C function that holds a lock of the OS thread."""
    folders = [f"/{folder}/" for module, folder in LOCKING.items() if module in sys.modules]
    return bool(folders) and any(folder in library for library in libraries_on_stack() for folder in folders)


def are_foreign() -> bool:
    """Return whether the caller's code is, or may be, beneath a C function of another package."""
    functions = unwinder()
    return functions is None or not libraries_on_stack() <= functions[2]


def libraries_on_stack() -> set[str]:
    """Return the files of the libraries whose C functions are on the greenlet's stack.

    Without those above the interpreter's, which this function calls itself. Empty where the platform does not tell.
    """
    functions = unwinder()
    if functions is None:
        return set()
    walk, library_of, own = functions
    found: set[str] = set()

    def visit(address: int) -> int:
        library = library_of(address)
        # Beneath the function that starts a greenlet lies the stack of another one, or its remains.
        if library == _greenlet.__file__:
            return END
        if found or library in own:
            found.add(library)
        return GO_ON

    walk(visit)
    return found


@cache
def unwinder() -> tuple[Callable[[Callable[[int], int]], None], Callable[[int], str], set[str]] | None:
    """Return a function that visits the return addresses of the C stack, one that finds the library of an address, and
    the known libraries.

    Known are those of the interpreter, of Dhaga and of the platform. Returns: None where the platform lacks a function.
    """
    try:
        import ctypes

        unwind = ctypes.CDLL(system.UNWINDER)
        backtrace, address_in = unwind._Unwind_Backtrace, unwind._Unwind_GetIP
        dladdr = ctypes.CDLL(None).dladdr
    except (ImportError, OSError, AttributeError):
        return None
    address_in.argtypes, address_in.restype = [ctypes.c_void_p], ctypes.c_void_p
    dladdr.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    visitor = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    class Place(ctypes.Structure):
        _fields_ = (
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("name", ctypes.c_char_p),
            ("address", ctypes.c_void_p),
        )

    def walk(visit: Callable[[int], int]) -> None:
        backtrace(visitor(lambda context, _: visit(address_in(context) or 0)), None)

    @cache
    def library_of(address: int) -> str:
        place: Any = Place()
        found = dladdr(address, ctypes.byref(place))
        return place.file.decode(errors="replace") if found and place.file else ""

    of = (ctypes.pythonapi.Py_IsInitialized, ctypes.CDLL(None).getpid)
    own = {library_of(ctypes.cast(function, ctypes.c_void_p).value or 0) for function in of}
    return walk, library_of, {"", sys.orig_argv[0], *own, *compiled_of_dhaga()}


def compiled_of_dhaga() -> list[str]:
    """Return the files of the accelerator, which begins each dhaga."""
    modules = (sys.modules.get(f"{__package__.rpartition('.')[0]}.fast.{name}") for name in ACCELERATOR)
    return [str(module.__file__) for module in modules if module is not None]
