"""The memory of this process."""

import gc
import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident() -> int:
    """Collect garbage, and return the resident bytes of this process; without /proc, return the peak so far.

    Stacks and tables that the operating system keeps for threads are not included.
    """
    gc.collect()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
