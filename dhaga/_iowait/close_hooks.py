"""Close hooks: what waits for a bare file descriptor learns here that ``close`` is about to close it.

Schedulers of several OS threads may wait for the same number. A lock keeps a waiter that leaves from dropping the hooks
of a waiter that comes.
"""

from __future__ import annotations

from collections.abc import Callable

from .._kernel import hooks, originals

# Re-entrant: a finalizer in the same thread may leave a wait.
changing = originals.RLock()


def add_close_hook(fd: int, callback: Callable[[], object]) -> None:
    """Call ``callback`` before the fd is closed, in the thread that closes it."""
    with changing:
        hooks.before_fd_close.setdefault(fd, {})[callback] = None


def remove_close_hook(fd: int, callback: Callable[[], object]) -> None:
    """Undo ``add_close_hook``; no-op if there is no such hook."""
    with changing:
        callbacks = hooks.before_fd_close.get(fd, {})
        callbacks.pop(callback, None)
        if not callbacks:
            hooks.before_fd_close.pop(fd, None)


def after_fork_in_child() -> None:
    """Remove the waits of other threads, and replace the lock, which another thread may have held."""
    global changing
    changing = originals.RLock()
    hooks.before_fd_close.clear()


hooks.in_forked_child.append(after_fork_in_child)
