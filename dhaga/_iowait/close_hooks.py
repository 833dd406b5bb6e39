"""Close hooks: callbacks that wake the waiters of a file descriptor before it is closed. The waits in ``fd_ops``,
``select`` and ``poll`` need these hooks, because such a wait knows only the descriptor's number.

Waiters in several OS threads may wait for the same descriptor. So a lock protects the hooks: a new waiter must not lose
its hook when a former waiter removes its own hook.
"""

from __future__ import annotations

from collections.abc import Callable

from .._kernel import hooks, originals

# The lock is reentrant, because a finalizer may end a wait in a thread that already holds the lock.
changing = originals.RLock()


def add_close_hook(fd: int, callback: Callable[[], object], replaced: Callable[[], object] | None = None) -> None:
    """Register a callback for the close of an fd. The callback runs before the close, in the closing thread.

    ``replaced``: a callback that runs after ``dup2`` has put another file under the fd's number.
    """
    with changing:
        hooks.before_fd_close.setdefault(fd, {})[callback] = replaced


def remove_close_hook(fd: int, callback: Callable[[], object]) -> None:
    """Remove a hook that ``add_close_hook`` has added, if the hook still exists."""
    with changing:
        callbacks = hooks.before_fd_close.get(fd, {})
        callbacks.pop(callback, None)
        if not callbacks:
            hooks.before_fd_close.pop(fd, None)


def after_fork_in_child() -> None:
    """Remove the hooks of the parent's waiters, and replace the lock, which another thread may have held."""
    global changing
    changing = originals.RLock()
    hooks.before_fd_close.clear()


hooks.in_forked_child.append(after_fork_in_child)
