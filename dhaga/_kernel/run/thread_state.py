"""State that C keeps for the OS thread and a program takes for its thread's own: it changes hands where a turn ends.

C modules put it into a dictionary of the OS thread (``PyThreadState_GetDict``), which all dhagas of that thread share.
At a park the program sees what it would see under gevent; a turn that ends between any two lines must not show it
another dhaga's. Only preemptions pay: about 3 µs of 100.
Not here: what greenlet swaps at each switch (context variables, the handled exception, the recursion depth).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ..context_manager import contextmanager

KEYS = ("Py_Repr", "ctypes.error_object")
"""The containers whose ``repr`` is under way, which show as ``[...]``, and the copies of errno of ctypes.

Found by reading: in CPython 3.11 to 3.15 only thread-locals of C (``_thread._local``) are there besides. Those belong
to the OS thread by their contract.
"""


@contextmanager
def put_aside() -> Iterator[None]:
    """Give other dhagas an OS thread without the caller's state in the block, and restore it after."""
    shared = dictionary()
    own = {key: shared.pop(key) for key in KEYS if key in shared}
    try:
        yield
    finally:
        for key in KEYS:
            shared.pop(key, None)
        shared.update(own)


def dictionary() -> dict[Any, Any]:
    """Return the dictionary of the caller's OS thread; an empty one where ctypes is missing."""
    functions = ctypes_functions()
    if functions is None:
        return {}
    address, at = functions
    found: dict[Any, Any] = at(address())
    return found


@cache
def ctypes_functions() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Return a function for the dictionary's address, and one for the object at an address; None without ctypes."""
    try:
        import ctypes
    except ImportError:
        return None
    # An item, and not an attribute, which others share: its type is set below.
    address = ctypes.pythonapi["PyThreadState_GetDict"]
    # As an address: the result is a borrowed reference.
    address.restype = ctypes.c_void_p
    return address, lambda place: ctypes.cast(place, ctypes.py_object).value
