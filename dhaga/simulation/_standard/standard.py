"""The functions of the standard library that a simulation replaces.

Outside a simulation, the replacements call the original functions. So a search replaces the functions only once, before
its first run. This saves time, because finding their names in all modules takes 20 ms. Dhaga's own modules keep the
original functions, because these modules call the operating system through ``_kernel/outside.py``.
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
"""The replaced functions. The log is empty unless a simulation or a search is under way."""


@contextmanager
def replaced() -> Iterator[None]:
    """Patch the standard library during the block. No-op within another block of this function. Raises: PatchError."""
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
    """Patch the standard library, even if classes of the program already exist, for example in a test run.

    Subclasses of ``threading.Thread`` get Dhaga's Thread as base, so they must not have instances. Raises: PatchError.
    """
    if not monkey.is_patched():
        _other_hubs.leave_out_imported()  # other tests of this process may have imported gevent, for example
        patch_after(*early_packages(replacements()), cooperative=True)


def replace() -> None:
    tempfile.gettempdir()  # before the run, because the first call draws file names to test the folder
    wanted = [*clocks.REPLACED, *randomness.REPLACED, *unsimulated.REPLACED, *_names.REPLACED, *_disk.REPLACED]
    for module, name, ours, _ in wanted:
        log.set(module, name, ours)
    log.set(random.Random, "seed", randomness.seed_generator)
    rebind(wanted, log)
    replace_held([*clocks.REPLACED, *randomness.REPLACED], log)
    clocks.set_datetime(simulated=True)
    executors = sys.modules.get("concurrent.futures.thread")
    if executors is not None:
        # If ``concurrent.futures`` was imported before the patch, its lock is an OS lock. A dhaga parks with the lock
        # held until a new thread has begun. Meanwhile, another dhaga that takes the lock would block the OS thread.
        log.set(executors, "_global_shutdown_lock", threading.Lock())
