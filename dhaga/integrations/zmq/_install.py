"""The functions and methods that ``install`` replaces in pyzmq, and ``uninstall`` restores."""

from __future__ import annotations

import sys
from typing import Any

from zmq import Context, Socket

from . import _context, _proxy, _socket
from ._poll import standard_poll, zmq_poll

__all__ = ["install", "uninstall"]

METHODS: dict[Any, dict[str, Any]] = {Socket: _socket.METHODS, Context: _context.METHODS}
FUNCTIONS = [(standard_poll, zmq_poll), *_proxy.FUNCTIONS]

MISSING = object()
former: list[tuple[Any, str, Any]] = []
"""The methods that ``uninstall`` restores: class, name, and former method, or MISSING for an inherited method."""


def install() -> None:
    """Make calls on all sockets and contexts park, including open ones. Plain OS threads wait in C."""
    if not former:
        for owner, names in METHODS.items():
            for name, ours in names.items():
                former.append((owner, name, vars(owner).get(name, MISSING)))
                setattr(owner, name, ours)
        replace_functions(FUNCTIONS)


def uninstall() -> None:
    """Restore pyzmq's own methods and functions. Parked callers stay parked."""
    while former:
        owner, name, standard = former.pop()
        if standard is MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, standard)
    replace_functions([(ours, standard) for standard, ours in FUNCTIONS])


def replace_functions(replacements: list[tuple[Any, Any]]) -> None:
    """Replace functions in each module of pyzmq that contains them."""
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "zmq"]:
        for old, new in replacements:
            for name in [name for name, value in vars(module).items() if value is old]:
                setattr(module, name, new)
