"""Finds the C extension that has turned on the interpreter lock of a free-threaded build, and logs its name once.

CPython turns on the interpreter lock of the process for good when it loads an extension that does not declare support
for free threading. CPython's RuntimeWarning names the extension, but programs often hide warnings. So each extension
loaded after Dhaga is checked here. The name of an extension that was loaded before Dhaga is found in CPython's registry
of shown warnings.

Dhaga logs the name when the first scheduler starts or, if a scheduler runs already, when the lock is turned on. If the
environment variable PYTHON_GIL (or ``-X gil``) is set, nothing is checked: 1 requests the lock, 0 keeps the lock off.

Builds with the lock do not import this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib import _bootstrap
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Any

from .. import hooks

logger = logging.getLogger("dhaga")

MESSAGE = (
    "%s has turned the interpreter lock on: OS threads take turns now, as on ordinary Pythons. "
    "To use several cores, run several processes, or replace that package; "
    "PYTHON_GIL=0 keeps the lock off at your own risk, PYTHON_GIL=1 hides this line"
)

BEGIN, END = "The global interpreter lock (GIL) has been enabled to load module '", "', which has not declared"
"""The words of CPython's warning before and after the name of the extension."""


class LockWatch:
    """The search for the extension that turns the lock on. ``is_on`` returns whether the lock is on."""

    def __init__(self, is_on: Callable[[], bool]) -> None:
        self.is_on = is_on
        self.culprit = ""
        self.has_scheduler = False
        self.told = False

    def load(self, create: Callable[[Any, ModuleSpec], ModuleType], loader: Any, spec: ModuleSpec) -> ModuleType:
        """Load an extension with ``create``, and store its name if the extension turns the lock on."""
        was_on = self.is_on()
        try:
            return create(loader, spec)
        finally:
            if not was_on and self.is_on():
                self.culprit = spec.name
                self.tell()

    def on_scheduler(self, scheduler: object, begins: bool) -> None:
        """Record whether a scheduler has started, and log the extension. The listener of ``hooks.on_scheduler``."""
        self.has_scheduler = self.has_scheduler or begins
        if not self.told:
            self.tell()

    def tell(self) -> None:
        """Log the extension, if the lock is on and a scheduler has started."""
        if self.told or not self.has_scheduler or not self.is_on():
            return
        self.told = True
        registry = getattr(_bootstrap, "__warningregistry__", {})
        logger.warning(MESSAGE, self.culprit or named_in(registry) or "A C extension that was imported before Dhaga")


def named_in(registry: Iterable[Any]) -> str:
    """Return the name of the extension in CPython's warning; an empty string if the warning was not shown.

    ``registry``: the ``__warningregistry__`` of the module that issued the warning.
    """
    for key in registry:
        text = str(key[0]) if isinstance(key, tuple) else ""
        if text.startswith(BEGIN) and END in text:
            return text.removeprefix(BEGIN).partition(END)[0]
    return ""


def watch_lock(is_on: Callable[[], bool]) -> None:
    """Check the lock from now on at each load of an extension and at each start of a scheduler."""
    watch = LockWatch(is_on)
    create = ExtensionFileLoader.create_module

    def create_module(self: ExtensionFileLoader, spec: ModuleSpec) -> ModuleType:
        return watch.load(create, self, spec)

    ExtensionFileLoader.create_module = create_module  # type: ignore[method-assign]
    hooks.on_scheduler.append(watch.on_scheduler)
