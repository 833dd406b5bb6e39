"""Replaces methods of a C driver's classes, for example with wrappers that call the replaced method in an OS thread.

A cancelled caller waits for the end of its call in the OS thread, because the call uses the connection. A cancelled
connect is an exception: its caller continues at once, because no other code has the connection yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from .._kernel.wait.current import parking_waiter
from .._workers.offload import offload, shared

Method = Callable[..., Any]


class Methods:
    """Replacement methods, by class and name. ``former``: the replaced attributes; None for an inherited method."""

    def __init__(self, methods: Mapping[tuple[type, str], Method]) -> None:
        self.methods = methods
        self.former: dict[tuple[type, str], Any] = {}

    def install(self) -> None:
        """Replace the methods, unless they are already replaced."""
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
    """Connect with a driver's ``__init__``, and store the read timeout. Parks: while connecting (``offload``)."""
    connection._dhaga_read_timeout = options.get("read_timeout") or None
    if parking_waiter() is None:
        standard_init(connection, *args, **options)
    else:
        offload(standard_init, connection, *args, **options)


def offloaded(method: Method) -> Method:
    """Return a method that runs in an OS thread while its caller is parked, or directly if the caller cannot park."""

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if parking_waiter() is None:
            return method(self, *args, **options)
        return shared.finish(method, self, *args, **options)

    return call
