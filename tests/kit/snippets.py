"""The Python snippets of a page of documentation, and what they print when they run as they stand there.

A fenced block of ``python`` is a program. A fence of ``text`` right below it is what the program prints. A comment
right above it, ``<!-- snippet: WORD -->``, says how it is meant: ``patched``, run by ``python -m dhaga``; ``pytest``, a
file of tests; ``fragment``, a part of a program, which is compiled only; ``fails``, a program that ends by the error
shown; ``timed``, a program whose output has figures with a decimal point, each of which may differ; ``NAME.py``, a file
for the snippets below it on the page, which start in its folder; ``postgres`` or ``redis``, a program that asks the
server at ``DATABASE_URL`` or ``REDIS_URL``; ``monitoring``, a program for CPython 3.12 or later.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
FENCE = re.compile(
    r"^(?:<!-- snippet: (?P<kind>\S+) -->\n)?```python\n(?P<code>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
SERVICES = {
    "postgres": ("DATABASE_URL", "DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "redis": ("REDIS_URL", "DHAGA_REDIS", "redis://127.0.0.1:6379/0"),
}
"""By kind: the variable that the program reads, and that of the tests with its default."""

FAILING = """\
import os, runpy, sys, traceback
try:
    runpy.run_path("program.py", run_name="__main__")
except Exception as error:
    print(*traceback.format_exception_only(error), sep="", end="", flush=True)
    os._exit(0)  # without waiting for the dhagas that are left
sys.exit("it did not fail")
"""
"""Runs a program, and prints the end of its traceback, which names no place of the library."""


class Snippet(NamedTuple):
    """A program on a page; ``output``: what it prints, None where the page does not show it."""

    line: int
    code: str
    kind: str = ""
    output: str | None = None

    def run(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run it in a process of its own, or write the file that it is."""
        name = "program.py" if self.kind == "fails" else f"test_{self.line}.py"
        commands = {"": ["-c", self.code], "patched": ["-m", "dhaga", "-c", self.code]}
        commands |= dict.fromkeys(("timed", "monitoring", *SERVICES), commands[""])
        if self.kind not in commands:
            name = self.kind if self.kind.endswith(".py") else name
            (folder / name).write_text(self.code)
        command = commands.get(self.kind, ["-m", "pytest", "-q", "-p", "no:cacheprovider", name])
        if self.kind == "fragment":
            command = ["-m", "py_compile", name]
        elif self.kind == "fails":
            command = ["-c", FAILING]
        elif self.kind.endswith(".py"):
            command = ["-c", f"import {self.kind.removesuffix('.py')}"]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        urls = {name: os.environ.get(variable, default) for name, variable, default in SERVICES.values()}
        environment = {**os.environ, **urls, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def check(self, folder: Path) -> None:
        """Run it. Raises: AssertionError if it fails, or prints something else than the page shows."""
        if self.kind == "monitoring" and sys.version_info < (3, 12):
            return
        done = self.run(folder)
        assert (done.returncode, done.stderr) == (0, ""), f"line {self.line}\n{done.stdout}{done.stderr}"
        if self.output is not None:
            assert self.compared(done.stdout) == self.compared(self.output), f"line {self.line}"

    def compared(self, text: str) -> str:
        return re.sub(r"\d+\.\d+", "N", text) if self.kind == "timed" else text


def snippets(text: str) -> list[Snippet]:
    """Return the Python snippets of a page, in order."""
    return [
        Snippet(text.count("\n", 0, found.start("code")), found["code"], found["kind"] or "", found["output"])
        for found in FENCE.finditer(text)
    ]
