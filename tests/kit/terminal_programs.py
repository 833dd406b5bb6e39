"""Programs in their own terminals."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
import time

from tests.kit.scripts import PATIENCE, ROOT

PROLOGUE = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
import dhaga.monkey
dhaga.monkey.patch(cooperative=True)
import dhaga
dhaga.spawn(lambda: (dhaga.sleep(0.01), print("<type>", flush=True)))  # others run while this program waits
"""


def typed_into(code: str, keys: bytes, **environment: str) -> tuple[int, str]:
    """Run a program in a terminal, and type ``keys`` once its other dhaga asks for them. Returns: status and output."""
    master, slave = os.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", PROLOGUE + textwrap.dedent(code)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
    finally:
        os.close(slave)
    try:
        return process_typed_into(process, master, keys)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def process_typed_into(process: subprocess.Popen[bytes], master: int, keys: bytes) -> tuple[int, str]:
    """Read the output of a process, and type ``keys`` after ``<type>``. Returns: status and output."""
    out, typed, end = b"", False, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            try:
                out += os.read(master, 4096)
            except OSError:  # the process has closed its terminal
                return process.wait(), out.decode()
        if b"<type>" in out and not typed:
            typed = bool(os.write(master, keys))
    raise AssertionError(f"the program hangs; it has written {out!r}")
