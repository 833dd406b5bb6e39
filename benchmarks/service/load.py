"""The load: the clients of `clients.c`, on a separate CPU."""

import json
import subprocess
from pathlib import Path

from benchmarks.machine import compiled

Load = dict[str, float]
"""The clients' figures: answers, failed requests, least and most answers of a client; first, p50, p90, p99 and max in
µs; the seconds, and the fraction of a CPU that the clients used.
"""


def load(
    port: int, clients: int, seconds: float, path: str, cpu: int | None = None, answers: int | None = None
) -> Load:
    """Load a server for a time, or until a number of answers have come. Raises: RuntimeError if there is no C compiler,
    or with the last output of clients that fail.
    """
    program = compiled(Path(__file__).with_name("clients.c"))
    if program is None:
        raise RuntimeError("the clients need a C compiler, and Linux")
    pinned = ["taskset", "--cpu-list", str(cpu)] if cpu is not None else []
    command = [
        *pinned,
        str(program),
        str(port),
        str(clients),
        str(seconds),
        path,
        *([] if answers is None else [str(answers)]),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds + 30)
    if done.returncode:
        raise RuntimeError(f"the clients have failed: {done.stderr.strip()}")
    return Load(json.loads(done.stdout))
