"""trio on dhagas: ``install()`` keeps it from naming its threads in C, where a dhaga's ident is no ``pthread_t``.

trio names the OS threads of ``trio.to_thread`` by ``pthread_setname_np(Thread.ident, …)``, called by ctypes, which
dereferences the ident: a segmentation fault. Its threads are dhagas here, and keep their names. Under
``dhaga.monkey.patch`` a post-import hook installs this.
"""

from __future__ import annotations

from typing import Any

try:
    from trio._core import _thread_cache as cache  # the function has no public name, nor a public switch
except ImportError:  # another series of trio
    cache = None

__all__ = ["install", "uninstall"]

NAME = "set_os_thread_name"
"""trio's function that names an OS thread; None on platforms that have none."""

former: list[Any] = []
"""What ``uninstall`` restores."""


def install() -> None:
    """Let trio name no OS thread."""
    if not former and getattr(cache, NAME, None) is not None:
        former.append(getattr(cache, NAME))
        setattr(cache, NAME, None)


def uninstall() -> None:
    """Undo ``install``."""
    if former:
        setattr(cache, NAME, former.pop())
