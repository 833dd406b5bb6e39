"""The service of the night: ``dhaga serve`` under an agent, its log, and what its processes have of the machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from tests.kit.scripts import PATIENCE, ROOT
from tests.soak.ledger import Ledger

WORKERS = 2
GRACE = 20
"""Seconds that requests get when a worker ends. A slow reader takes 1 s on two cores, a view without a service 10."""

BAD = re.compile(r"Traceback|\b(ERROR|CRITICAL)\b|not patched|unpatched|was killed|killed it")


def agent() -> list[str]:
    """Return the command to put before a Python: the agent's, where it is installed."""
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    return [str(command)] if command.exists() else []


class Served:
    """``serve`` with its workers. ``generations``: the pids of its workers, the newest last."""

    def __init__(self, app: str, environment: Mapping[str, str], ledger: Ledger) -> None:
        serve = ["-m", "dhaga", "serve", app, "--bind", "127.0.0.1:0", "--workers", str(WORKERS)]
        self.ledger = ledger
        self.process = subprocess.Popen(
            [*agent(), sys.executable, "-u", *serve, "--graceful-timeout", str(GRACE)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = ("", 0)
        self.generations: list[set[int]] = [set()]
        self.changed = threading.Condition()
        self.log: deque[str] = deque(maxlen=50)
        self.reader = threading.Thread(target=self.read_log, name="log", daemon=True)
        self.reader.start()
        self.wait_for_workers()

    def read_log(self) -> None:
        """Note who serves, and fail for a line that tells of an error."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip())
            if BAD.search(line):
                time.sleep(0.5)  # for the rest of a traceback
                self.ledger.fail(f"logged: {line}")
            with self.changed:
                if found := re.search(r"listens at http://(.+):(\d+)", line):
                    self.address = found[1], int(found[2])
                if found := re.search(r"worker (\d+) serves", line):
                    self.generations[-1].add(int(found[1]))
                self.changed.notify_all()

    def wait_for_workers(self) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.generations[-1]) == WORKERS, PATIENCE):
                self.ledger.fail(f"of {WORKERS} workers these serve after {PATIENCE} s: {self.generations[-1]}")

    def reload(self) -> None:
        """Have new workers replace the old ones. Blocks until they serve."""
        with self.changed:
            self.generations.append(set())
        self.process.send_signal(signal.SIGHUP)
        self.wait_for_workers()

    def current(self) -> set[int]:
        """Return the pids of the newest generation of which all serve."""
        return next((pids for pids in reversed(self.generations) if len(pids) == WORKERS), set())

    def dhagas(self) -> dict[int, int]:
        """Ask each worker how many dhagas are alive in it. A reload may replace them meanwhile."""
        found: dict[int, int] = {}
        deadline = time.monotonic() + PATIENCE
        while not self.current() <= found.keys():
            if time.monotonic() > deadline:
                self.ledger.fail(f"of {self.current()} only {set(found)} have answered in {PATIENCE} s")
                break
            url = "http://{}:{}/usage".format(*self.address)
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                pid, count = json.load(answer)
            found[pid] = count
        return {pid: found[pid] for pid in self.current() & found.keys()}

    def end(self) -> None:
        """End it as operators do, and see that it says nothing of an error."""
        self.process.terminate()
        try:
            status = self.process.wait(GRACE + PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        if status:
            self.ledger.fail(f"serve ended with status {status}")


def usage(pid: int) -> dict[str, int]:
    """Return what a process has: bytes of memory, file descriptors, OS threads. Linux only. Raises: OSError."""
    folder = Path(f"/proc/{pid}")
    return {
        "memory": int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "fds": len(os.listdir(folder / "fd")),
        "threads": len(os.listdir(folder / "task")),
    }
