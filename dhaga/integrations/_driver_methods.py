"""Replaces methods of a driver's classes with wrappers: they call the replaced method in an OS thread, or close the
connection if an error from outside interrupts the method.

A cancelled caller of a method in an OS thread waits for the end of its call, because the call uses the connection. A
cancelled connect is an exception: its caller continues at once, because no other code has the connection yet.
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


def closing_if_interrupted(
    method: Method, close: Callable[[Any], object], own: tuple[type[BaseException], ...] = ()
) -> Method:
    """Return a method that calls ``close(self)`` if an error from outside, such as a cancel, interrupts it.

    ``own``: classes of errors that the driver expects. After such an error, the driver itself decides about the
    connection.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except own:
            raise
        except BaseException:
            close(self)
            raise

    return call
