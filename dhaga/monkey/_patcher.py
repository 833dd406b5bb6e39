"""The patch: ``patch()`` replaces calls that block with calls that park, in the standard modules.

``_patch_table`` lists everything that is replaced by name. ``patch`` works in this order:

1. ``_other_hubs`` refuses a patch beside gevent's or eventlet's, ``_preconditions`` one that comes too late;
2. the standard classes that Dhaga uses keep their globals (``_rebind.keep_originals``);
3. the names of the table, and ``sys.stdin``, are replaced;
4. names and base classes that other modules bound earlier are replaced (``rebind``, ``rebase``), but not in modules
   whose threads stay OS threads (``_real_threads``);
5. live locks, queues and thread-locals are upgraded in place (``_upgrade_locks``);
6. post-import hooks (``_post_import``) and the standard's reprs (``_stdlib_reprs``) are added.

``log`` records each attribute that is set, and is empty while nothing is patched. ``unpatch`` removes the hooks,
downgrades the locks, and then undoes the log from its end. An error in ``patch`` calls ``unpatch``: all or nothing.
During a fork ``threading`` has its own names back: its after-fork handler counts its threads by them.
``signal.set_wakeup_fd`` is the standard one again: asyncio's handler calls it before the dhaga that forks is the
child's main thread.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Iterable
from pkgutil import resolve_name
from typing import Any

from .._kernel import originals
from .._kernel.errors import PatchError
from .._kernel.platform.system import system
from .._kernel.process import preemption_watcher, shutdown
from ..asyncio import set_loops_of_policy
from ..io import parking_stdin
from . import _real_threads
from ._lazy_imports import resolve_lazy_imports
from ._other_hubs import refuse_other_patches
from ._patch_table import TABLE
from ._post_import import add_hooks, remove_hooks
from ._preconditions import refuse_late
from ._private_imports import PrivateModules
from ._rebind import PatchLog, Replacement, keep_originals, rebase, rebind, rebind_back
from ._stdlib_reprs import use_standard_reprs
from ._upgrade_locks import downgrade_locks, upgrade_locks

__all__ = ["PatchError", "is_patched", "original", "patch", "patched_imports", "unpatch"]


log = PatchLog()
"""The changes that ``unpatch`` undoes."""


def is_patched() -> bool:
    """Return whether the standard modules are patched now."""
    return bool(log)


def patch(*, cooperative: bool = False, real_threads: Iterable[str] = ()) -> None:
    """Replace everything that ``TABLE`` names in the standard modules; no-op while they are patched.

    From now on dhagas that compute are preempted like threads, unless the patch is ``cooperative``.
    ``real_threads``: modules that start OS threads nevertheless, besides the known profilers (``_real_threads``).
    Parks: never. From: the main code, before other imports. All or nothing. Raises: PatchError if it comes too late, or
    after a patch of gevent's or eventlet's.
    """
    patch_after(cooperative=cooperative, real_threads=real_threads)


def patch_after(*known: str, cooperative: bool = False, real_threads: Iterable[str] = ()) -> None:
    """Patch although these packages have been imported: their subclasses of Thread are then derived from ours.

    Their other subclasses keep their bases, which is harmless: the source of each package was read.
    """
    if log:
        return
    wanted = list(replacements())
    _real_threads.activate(real_threads)
    try:
        refuse(wanted, known)
        keep_originals(wanted, log)
        for module, name, ours, _ in wanted:
            log.set(module, name, ours)
        log.set(sys, "stdin", parking_stdin())
        rebind(wanted, log)
        rebase(wanted, log, known)
        _real_threads.rebind_real(wanted, log)
        upgrade_locks()
        add_hooks()
        use_standard_reprs(log)
        set_loops_of_policy(ours=True)
        shutdown.threads_are_dhagas = True
        if not cooperative:
            preemption_watcher.turn_on_for_patch()
    except BaseException:
        _real_threads.deactivate()
        unpatch()
        raise


def refuse(wanted: Iterable[Replacement], known: Iterable[str] = ()) -> None:
    """Raise PatchError if a patch would come too late, or if another one is active."""
    refuse_other_patches()
    refuse_late(wanted, known)


def replacements() -> list[Replacement]:
    """Import all modules of ``TABLE`` before a name is replaced: standard classes must derive from standard ones."""
    rows = [row for row in TABLE if row.when]
    modules = [(resolve_name(row.module), resolve_name(row.ours)) for row in rows]
    resolve_lazy_imports()
    return [
        Replacement(module, name, getattr(ours, name), getattr(module, name))
        for row, (module, ours) in zip(rows, modules, strict=True)
        for name in row.names
    ]


def unpatch() -> None:
    """Undo ``patch``. Threads, sockets and locks made meanwhile stay ours, and still work."""
    if not log:
        return
    _real_threads.deactivate()
    shutdown.threads_are_dhagas = False
    preemption_watcher.turn_off()
    remove_hooks()
    downgrade_locks()
    log.undo()
    rebind_back(replacements())
    set_loops_of_policy(ours=False)
    for namespace in originals.namespaces.values():
        namespace.clear()


set_aside: list[tuple[Any, str, Any]] = []
"""Our replacements, set aside while a fork is under way."""


def restore_for_fork() -> None:
    """Restore, for a fork, the standard functions that after-fork handlers of standard modules call."""
    for owner, name, value in log.entries:
        if owner is threading or (owner, name) == (signal, "set_wakeup_fd"):
            set_aside.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)


def replace_after_fork() -> None:
    while set_aside:
        owner, name, value = set_aside.pop()
        setattr(owner, name, value)


system.register_at_fork(before=restore_for_fork, after_in_parent=replace_after_fork, after_in_child=replace_after_fork)


def original(module: str, name: str) -> Any:
    """Return a standard module's object of this name without the patch: ``original("threading", "Thread")``.

    A wait in such a function or lock blocks the OS thread with all its dhagas. Raises: ImportError, AttributeError.
    """
    owner = importlib.import_module(module)
    for where, what, value in log.entries:
        if where is owner and what == name:
            return value
    return getattr(owner, name)


def patched_imports(*names: str, shared: Iterable[str] = ()) -> PrivateModules:
    """Return a context manager in which the caller imports private, patched copies of these packages.

    Their imports are also private, apart from the standard library (see ``_private_stdlib.py``), packages with compiled
    modules, and those in ``shared``. Objects of one block are not instances of another's classes: name all packages
    that exchange them in one block.
    Parks: never. Returns: the private modules; their ``import_module`` also imports after the block.
    """
    return PrivateModules(TABLE, names, tuple(shared))
