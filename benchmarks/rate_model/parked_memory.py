"""The memory that 1 to 10,000 waiting threads, dhagas, greenlets and tasks take."""

import json
import subprocess
import sys

PATIENCE = 60.0  # seconds
COUNTS = (1, 10, 100, 1_000, 10_000)
NAMES = {"threads": "threads", "dhagas": "dhaga", "gevent": "gevent", "asyncio": "asyncio"}
"""For each way, its name in `benchmarks.kernel`."""


def parked(way: str, count: int) -> float:
    """Park ``count`` in a new process. Returns: the bytes that they add. Raises: RuntimeError, TimeoutExpired."""
    command = [sys.executable, "-m", "benchmarks.kernel.child", NAMES[way], "parked_memory", "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(f"{count} {way}: {done.stderr.strip().rpartition(chr(10))[2]}")
    return float(json.loads(done.stdout)["sample"]) * count


def table_of(ways: list[str], most: int) -> dict[str, dict[str, float | None]]:
    """Park up to `most`. Returns: the bytes by way and count; None if so many could not be started."""
    found: dict[str, dict[str, float | None]] = {}
    for count in (count for count in COUNTS if count <= most):
        for way in ways:
            try:
                found.setdefault(way, {})[str(count)] = parked(way, count)
            except (RuntimeError, subprocess.TimeoutExpired):
                found.setdefault(way, {})[str(count)] = None
    return found
