"""The patch: ``patch()`` replaces calls that block with calls that park, in the standard modules.

``_patch_table`` lists all names that are replaced. ``patch`` works in this order:

1. ``_other_hubs`` refuses a patch after gevent's or eventlet's; ``_preconditions`` refuses a patch that is too late;
2. if Dhaga itself uses a standard class, its methods keep the unpatched globals (``_rebind.keep_originals``);
3. the names of the table, and ``sys.stdin``, are replaced;
4. names that other modules have imported, and the base ``Thread`` of standard classes, are replaced (``rebind``,
   ``rebase``); modules whose threads stay OS threads get back some standard names (``_real_threads.STANDARD``);
5. live locks, queues and thread-locals are upgraded in place (``_upgrade_locks``);
6. post-import hooks (``_post_import``) and reprs like the standard ones (``_stdlib_reprs``) are added.

``log`` records each attribute that is set, and is empty while nothing is patched. ``unpatch`` removes the hooks,
downgrades the locks, and then undoes the log from its end. After an error, ``patch`` calls ``unpatch``, so that no part
of the patch remains.

During a fork, the standard names of ``threading`` are restored, because the after-fork handler of ``threading`` counts
threads through them. ``signal.set_wakeup_fd`` is also restored, because asyncio's after-fork handler calls it before
the forking dhaga has become the child's main thread.
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
from .._kernel.process import preemption_watcher, process_exit
from ..asyncio import set_loops_of_policy
from ..io import parking_stdin
from . import _real_threads
from ._lazy_imports import resolve_lazy_imports
from ._other_hubs import refuse_other_patches
from ._patch_table import TABLE
from ._post_import import add_hooks, remove_hooks, standard_names
from ._preconditions import refuse_late
from ._private_imports import PrivateModules
from ._rebind import PatchLog, Replacement, keep_originals, rebase, rebind, rebind_back
from ._stdlib_reprs import use_standard_reprs
from ._upgrade_locks import downgrade_locks, upgrade_locks

__all__ = ["PatchError", "is_patched", "original", "patch", "patched_imports", "unpatch"]


log = PatchLog()
"""The changes that ``unpatch`` undoes."""


def is_patched() -> bool:
    """Return whether the standard modules are currently patched."""
    return bool(log)


def patch(*, cooperative: bool = False, real_threads: Iterable[str] = ()) -> None:
    """Replace all names of ``TABLE`` in the standard modules. Do nothing if they are already patched.

    After the patch, dhagas that compute are preempted like threads, unless the patch is ``cooperative``.
    ``real_threads``: modules whose threads stay OS threads, in addition to known profilers (``_real_threads``).
    Parks: never. From: the main code, before other imports. Raises: PatchError if the patch comes too late, or after a
    patch by gevent or eventlet; TypeError. After an error, nothing is patched.
    """
    patch_after(cooperative=cooperative, real_threads=real_threads)


def patch_after(*known: str, cooperative: bool = False, real_threads: Iterable[str] = ()) -> None:
    """Patch although the packages ``known`` have been imported. Their subclasses of Thread get Dhaga's Thread as base.

    Subclasses of other replaced classes in these packages keep their bases. A review of each package's source has shown
    that this is harmless.
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
        process_exit.threads_are_dhagas = True
        if not cooperative:
            preemption_watcher.turn_on_for_patch()
    except BaseException:
        _real_threads.deactivate()
        unpatch()
        raise
    _real_threads.warn_of_misspelled(_real_threads.active)


def refuse(wanted: Iterable[Replacement], known: Iterable[str] = ()) -> None:
    """Raise PatchError if a patch would come too late, or if gevent or eventlet has patched the program."""
    refuse_other_patches()
    refuse_late(wanted, known)


def replacements() -> list[Replacement]:
    """Import the modules of ``TABLE`` before names are replaced, so that classes in these modules get standard bases.

    Returns: the replacements.
    """
    rows = [row for row in TABLE if row.when]
    modules = [(resolve_name(row.module), resolve_name(row.ours)) for row in rows]
    resolve_lazy_imports()
    return [
        Replacement(module, name, getattr(ours, name), getattr(module, name))
        for row, (module, ours) in zip(rows, modules, strict=True)
        for name in row.names
    ]


def unpatch() -> None:
    """Undo ``patch``. Threads, sockets and locks that were created meanwhile keep Dhaga's classes, and still work."""
    if not log:
        return
    _real_threads.deactivate()
    process_exit.threads_are_dhagas = False
    preemption_watcher.turn_off()
    remove_hooks()
    downgrade_locks()
    log.undo()
    rebind_back(replacements())
    set_loops_of_policy(ours=False)
    for namespace in originals.namespaces.values():
        namespace.clear()


set_aside: list[tuple[Any, str, Any]] = []
"""The replacements that are removed during a fork. Each entry has the module, the name and the replacement."""


def restore_for_fork() -> None:
    """Restore the standard functions that standard after-fork handlers call. From: the handler before a fork."""
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
    """Return the unpatched object of a standard module, as in ``original("threading", "Thread")``.

    A wait in an unpatched function or lock blocks the OS thread with all its dhagas. Raises: ImportError,
    AttributeError.
    """
    owner = importlib.import_module(module)
    for where, what, value in log.entries:
        if where is owner and what == name:
            return value
    standard = standard_names(module)
    return standard[name] if name in standard else getattr(owner, name)


def patched_imports(*names: str, shared: Iterable[str] = ()) -> PrivateModules:
    """Return a context manager in which the caller imports private, patched copies of these packages.

    Modules that these packages import are also private, apart from the standard library (see ``_private_stdlib.py``),
    packages with compiled modules, and the packages in ``shared``. Each call creates separate classes. Therefore, pass
    packages that exchange objects to the same call.
    Parks: never. Returns: the private modules. Their method ``import_module`` also works after the block.
    """
    return PrivateModules(TABLE, names, tuple(shared))
