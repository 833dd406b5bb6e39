"""Guards exist, and are shared as they must be, on builds without the interpreter lock, and nowhere else."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from dhaga._kernel.guards import Guarded, TicketDeque
from dhaga._kernel.interpreter import FREE_THREADED
from dhaga._sync.lock import Lock
from tests.kit.scripts import prints


def test_the_import_hook_is_loaded_where_there_is_no_interpreter_lock() -> None:
    assert prints("import sys, dhaga; print('dhaga._kernel.atomic_lines' in sys.modules)") == [str(FREE_THREADED)]


@pytest.mark.skipif(FREE_THREADED, reason="there is no interpreter lock")
def test_builds_with_the_lock_have_no_guards() -> None:
    assert TicketDeque is deque and Guarded.__slots__ == () and not hasattr(Lock(), "_guard")


@pytest.mark.skipif(not FREE_THREADED, reason="there is an interpreter lock")
def test_a_wait_queue_has_the_guard_of_its_owner() -> None:
    lock: Any = Lock()
    other: Any = Lock()
    assert lock._waiters._guard is lock._guard is not other._guard
