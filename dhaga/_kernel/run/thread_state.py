"""State that C modules keep per OS thread. It is saved and restored when preemption ends the turn of a dhaga.

The state is in a dictionary of the OS thread (``PyThreadState_GetDict``), which all dhagas of the thread share. After a
park, a dhaga may see another dhaga's state, as under gevent. But a turn may end between any two lines, and between two
lines a program must not see such a change. Only preemptions pay for this: about 3 µs of the 100 µs of a preemption.
Not here: state that greenlet swaps at each switch (context variables, the handled exception, the recursion depth).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from ..context_manager import contextmanager

KEYS = ("Py_Repr", "ctypes.error_object")
"""Keys of the saved state: the containers whose ``repr`` is running, shown as ``[...]``, and ctypes' copies of errno.

In the sources of CPython 3.11 to 3.15, the dictionary contains only one other kind of state: the thread-locals of C
(``_thread._local``), which belong to the OS thread by their contract.
"""


@contextmanager
def put_aside() -> Iterator[None]:
    """Remove the caller's state from the OS thread during the block, and restore the state after the block."""
    shared = dictionary()
    own = {key: shared.pop(key) for key in KEYS if key in shared}
    try:
        yield
    finally:
        for key in KEYS:
            shared.pop(key, None)
        shared.update(own)


def dictionary() -> dict[Any, Any]:
    """Return the dictionary of the caller's OS thread, or an empty dictionary without ctypes."""
    functions = ctypes_functions()
    if functions is None:
        return {}
    address, at = functions
    found: dict[Any, Any] = at(address())
    return found


@cache
def ctypes_functions() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Return a function for the dictionary's address, and a function for the object at an address.

    Returns: None without ctypes.
    """
    try:
        import ctypes
    except ImportError:
        return None
    # The function is read as an item of pythonapi, because its result type is set below: an attribute of pythonapi
    # would be shared with other code.
    address = ctypes.pythonapi["PyThreadState_GetDict"]
    # The result is declared as an address, because the function returns a borrowed reference.
    address.restype = ctypes.c_void_p
    return address, lambda place: ctypes.cast(place, ctypes.py_object).value
