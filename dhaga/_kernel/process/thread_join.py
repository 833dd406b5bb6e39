"""The join of a thread that is a dhaga, also while the interpreter ends."""

from __future__ import annotations

import builtins
import sys

from ..faces.arguments import check_wait_timeout
from ..run.microthread import Dhaga

# Until Python 3.13, a join at this time waits in vain.
finalization_error: type[RuntimeError] | None = (
    getattr(builtins, "PythonFinalizationError", None) if sys.version_info >= (3, 14) else None
)


def join_thread(dhaga: Dhaga, timeout: float | None) -> None:
    """Wait until a thread has ended. A thread that still lives while the interpreter ends will not run again.

    Parks: ``join``. Raises: ValueError; on Python 3.14 and newer PythonFinalizationError while the interpreter ends.
    """
    if timeout is not None:
        check_wait_timeout(timeout)
    if dhaga.has_ended:  # in a forked child, the parent's threads count as ended, as in the standard
        return
    if finalization_error is not None and sys.is_finalizing():
        raise finalization_error("cannot join thread at interpreter shutdown")
    dhaga.join(timeout)
