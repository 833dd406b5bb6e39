"""Servers of notifications in processes of their own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.examples.kit import ROOT


@dataclass
class Served:
    """A server, and where it is."""

    process: subprocess.Popen[str]
    url: str
    lines: str
    told: str

    def post(self, topic: str, text: str) -> None:
        """Publish."""
        with urllib.request.urlopen(f"{self.url}topics/{topic}", text.encode(), timeout=60) as response:
            assert response.status == 200


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """Run a server; it is to end by SIGTERM, and well."""
    line = [sys.executable, "-m", "examples.notifications", "--port", "0", *arguments]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        told = "".join(process.stdout.readline() for _ in range(4))
        match = re.match(r"page: +(http://\S+/)\n(?:.*\n){2}lines: +(\S+) ", told)
        if not match:
            raise AssertionError(process.communicate()[1])
        yield Served(process, match[1], match[2], told)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors, errors
    finally:
        process.kill()
        process.communicate()
