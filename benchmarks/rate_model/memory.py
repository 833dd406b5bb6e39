"""The resident memory of this process, and its peak since a chosen moment, if /proc reports it."""

import resource
import sys
from pathlib import Path

PROC = Path("/proc/self")


def _status(field: str) -> int | None:
    try:
        lines = (PROC / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def _highest() -> int:
    """Return the peak since the process began."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def start() -> int:
    """Reset the peak. Returns: the resident bytes."""
    try:
        (PROC / "clear_refs").write_text("5")
    except OSError:  # the peak since the start of the process remains, which is never too low
        pass
    return _status("VmRSS") or _highest()


def peak() -> int:
    """Return the maximum of resident bytes since `start`."""
    return _status("VmHWM") or _highest()
