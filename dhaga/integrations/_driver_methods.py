"""The methods of a C driver's classes that an integration replaces, and those of them that run in an OS thread.

A call in an OS thread uses the connection, so a cancel of its caller waits for the end of the call; a connect uses
nothing that others have, and ends for its caller at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from .._kernel.wait.current import parking_waiter
from .._workers.offload import offload, shared

Method = Callable[..., Any]


class Methods:
    """Methods by class and name, and the attributes that they have replaced since ``install``; None: inherited."""

    def __init__(self, methods: Mapping[tuple[type, str], Method]) -> None:
        self.methods = methods
        self.former: dict[tuple[type, str], Any] = {}

    def install(self) -> None:
        """Replace the methods; no-op the second time."""
        if not self.former:
            for (owner, name), method in self.methods.items():
                self.former[owner, name] = vars(owner).get(name)
                setattr(owner, name, method)

    def uninstall(self) -> None:
        """Restore the standard methods."""
        while self.former:
            (owner, name), method = self.former.popitem()
            if method is None:
                delattr(owner, name)
            else:
                setattr(owner, name, method)


def connect_by(standard_init: Method, connection: Any, *args: Any, **options: Any) -> None:
    """Connect by a driver's ``__init__``, and note the read timeout. Parks: until then (``offload``)."""
    connection._dhaga_read_timeout = options.get("read_timeout") or None
    if parking_waiter() is None:
        standard_init(connection, *args, **options)
    else:
        offload(standard_init, connection, *args, **options)


def offloaded(method: Method) -> Method:
    """Return a method that runs in an OS thread while its caller, a dhaga, is parked."""

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if parking_waiter() is None:
            return method(self, *args, **options)
        return shared.finish(method, self, *args, **options)

    return call
