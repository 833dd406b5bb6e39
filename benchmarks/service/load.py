"""The load: the clients of `clients.c`, on a CPU of their own."""

import json
import subprocess
from pathlib import Path

from benchmarks.machine import compiled

Load = dict[str, float]
"""What the clients saw: answers, failed, least and most answers of a client; first, p50, p90, p99, max in µs; the
seconds, and the share of a CPU that they used.
"""


def load(
    port: int, clients: int, seconds: float, path: str, cpu: int | None = None, answers: int | None = None
) -> Load:
    """Ask a server for so long, or until so many answers are there. Raises: RuntimeError without a C compiler, or with
    the last words of clients that cannot go on.
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
