"""``gevent.subprocess``: the standard ``subprocess`` on dhagas; see ``dhaga.subprocess``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from ... import subprocess as ours
from ..._kernel.faces.stdlib_face import fall_back_to
from .fileobject import FileObject as FileObject
from .greenlet import Greenlet

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]


class Popen(ours.Popen):
    """A child process with ``rawlink``, which ``gevent.wait`` requires."""

    _links: dict[Any, Greenlet] | None = None

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(self)`` in a new greenlet once the process has ended."""

        def watch() -> None:
            self.wait()
            self.unlink(callback)
            callback(self)

        if self._links is None:
            self._links = {}
        self._links[callback] = Greenlet.spawn(watch)

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a callback; no-op if the callback is not registered."""
        watcher = (self._links or {}).pop(callback, None)
        if watcher is not None and watcher is not getcurrent():
            watcher.kill(block=False)
