"""The functions of the standard library that a simulation replaces. Without a simulation they do as before.

So a search replaces them once for all its runs: finding all names that modules have bound takes 20 ms. Dhaga's own
modules are not searched: they call the operating system through ``_kernel/outside.py``.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Iterator

from ... import monkey
from ..._kernel.context_manager import contextmanager
from ..._kernel.process.preemption_watcher import suspended
from ...monkey import _other_hubs
from ...monkey._patcher import patch_after, replacements
from ...monkey._preconditions import early_packages
from ...monkey._rebind import PatchLog, rebind
from ..disk import _installed as _disk
from ..network import _names
from . import clocks, randomness, unsimulated
from .held import replace_held

log = PatchLog()
"""The replaced functions, while any simulation or search is under way."""


@contextmanager
def replaced() -> Iterator[None]:
    """Patch the standard library for the block. No-op in another such block. Raises: PatchError."""
    if log:
        yield
        return
    patched_before = monkey.is_patched()
    patch_late()
    try:
        with suspended():
            replace()
            yield
    finally:
        log.undo()
        clocks.set_datetime(simulated=False)
        if not patched_before:
            monkey.unpatch()


def patch_late() -> None:
    """Patch although the program's classes have been made: in a run of tests they are all imported by now.

    Their threads are then derived from ours, which needs a class without instances. Raises: PatchError.
    """
    if not monkey.is_patched():
        _other_hubs.leave_out_imported()  # by the other tests of the process
        patch_after(*early_packages(replacements()), cooperative=True)


def replace() -> None:
    tempfile.gettempdir()  # the first call draws names, to try the folder
    wanted = [*clocks.REPLACED, *randomness.REPLACED, *unsimulated.REPLACED, *_names.REPLACED, *_disk.REPLACED]
    for module, name, ours, _ in wanted:
        log.set(module, name, ours)
    log.set(random.Random, "seed", randomness.seed_generator)
    rebind(wanted, log)
    replace_held([*clocks.REPLACED, *randomness.REPLACED], log)
    clocks.set_datetime(simulated=True)
    executors = sys.modules.get("concurrent.futures.thread")
    if executors is not None:
        # Imported before the patch, it has an OS lock, and starts threads while it holds it.
        log.set(executors, "_global_shutdown_lock", threading.Lock())
