"""The compiled methods, from the registry of the kernel, for the tests that go through all of them."""

from __future__ import annotations

from types import MethodDescriptorType

from dhaga import queue, socket, ssl, threading
from dhaga._kernel.fast.compiled import python_functions
from dhaga.http import wsgi

IMPORTED = (queue, socket, ssl, threading, wsgi)
"""With these all compiled functions are in the registry."""


def compiled_methods() -> list[tuple[type, str]]:
    """Return class and name of each compiled method, for each of its names in the class; in pure mode nothing."""
    owners = {each.__objclass__: None for each in python_functions if isinstance(each, MethodDescriptorType)}
    return [
        (owner, name)
        for owner in owners
        for name, each in vars(owner).items()
        if isinstance(each, MethodDescriptorType) and each in python_functions
    ]
