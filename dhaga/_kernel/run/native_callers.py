"""Detection of C libraries that call Python while they hold a lock of the OS thread.

No turn ends during such a call: another dhaga that called the library would wait in C for the lock, and would block all
dhagas of the OS thread forever. A C function leaves no Python frame, so a function that C code calls looks as if the
program had called it. Therefore the C stack is read: ``_Unwind_Backtrace`` reports the return addresses, and ``dladdr``
finds the library of an address.
At the end of a turn, the stack is read only if a library of this kind was imported. A read takes 20 µs per C frame, and
so 0.3 ms in the handler of a request, which has about 15 C frames below it.
Rejected: letting no turn end while any C library calls Python. Monitoring agents wrap each view with wrapt, a C
library, so no turn in a view would end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from greenlet import _greenlet

from ..platform.system import system

LOCKING = {"lxml.etree": "lxml"}
"""The folders of packages whose C code calls Python with a lock held. Each key is the module that loads the C code.

lxml holds the lock of a parser, an XPath or an XSLT while it calls ``read``, targets, resolvers or extension functions.
sqlite3, expat, ctypes, json, pickle and re hold no such lock: tested with callbacks that compute in several threads.
"""

ACCELERATOR = ("_fast_paths", "_frame_chunks")

GO_ON, END = 0, 4
"""Return values for the unwinder: ``_URC_NO_REASON`` and ``_URC_NORMAL_STOP``."""


def hold_lock() -> bool:
    """Return whether a C function that holds a lock of the OS thread is on the caller's stack."""
    folders = [f"/{folder}/" for module, folder in LOCKING.items() if module in sys.modules]
    return bool(folders) and any(folder in library for library in libraries_on_stack() for folder in folders)


def are_foreign() -> bool:
    """Return whether a C function of another package is, or may be, on the caller's stack."""
    functions = unwinder()
    return functions is None or not libraries_on_stack() <= functions[2]


def libraries_on_stack() -> set[str]:
    """Return the files of the libraries whose C functions are on the greenlet's stack.

    The C functions that this function calls itself are left out. Returns: an empty set if the stack cannot be read.
    """
    functions = unwinder()
    if functions is None:
        return set()
    walk, library_of, own = functions
    found: set[str] = set()

    def visit(address: int) -> int:
        library = library_of(address)
        # The stack below the function that starts a greenlet belongs to another greenlet, or is a remainder of one.
        if library == _greenlet.__file__:
            return END
        if found or library in own:
            found.add(library)
        return GO_ON

    walk(visit)
    return found


@cache
def unwinder() -> tuple[Callable[[Callable[[int], int]], None], Callable[[int], str], set[str]] | None:
    """Return a function that visits the return addresses of the C stack, a function that finds the library of an
    address, and the known libraries.

    Known libraries are the interpreter's, Dhaga's and the platform's. Returns: None if the platform lacks one of these
    functions.
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
    """Return the files of Dhaga's compiled modules, which are on the C stack of each dhaga."""
    modules = (sys.modules.get(f"{__package__.rpartition('.')[0]}.fast.{name}") for name in ACCELERATOR)
    return [str(module.__file__) for module in modules if module is not None]
