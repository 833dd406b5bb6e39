"""trio on dhagas: ``install()`` stops trio from naming its threads in C. A dhaga's ident is not a ``pthread_t``.

trio names the OS threads of ``trio.to_thread`` with ``pthread_setname_np(Thread.ident, …)``, called through ctypes. The
C function dereferences the ident: a dhaga's ident would cause a segmentation fault. In a patched program these threads
are dhagas, which have names of their own, and a post-import hook calls ``install()``.
"""

from __future__ import annotations

from typing import Any

try:
    from trio._core import _thread_cache as cache  # the function has no public name and no public switch
except ImportError:  # another release series of trio
    cache = None

__all__ = ["install", "uninstall"]

NAME = "set_os_thread_name"
"""The name of trio's function that names an OS thread. The function is None on some platforms."""

former: list[Any] = []
"""The function that ``uninstall`` restores."""


def install() -> None:
    """Stop trio from naming OS threads."""
    if not former and getattr(cache, NAME, None) is not None:
        former.append(getattr(cache, NAME))
        setattr(cache, NAME, None)


def uninstall() -> None:
    """Undo ``install``."""
    if former:
        setattr(cache, NAME, former.pop())
