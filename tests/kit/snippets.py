"""The Python snippets of a page of documentation. They run unchanged, and must print what the page shows.

A fenced block of ``python`` is a program. A block of ``text`` right below it is the program's output. A comment right
above it, ``<!-- snippet: WORD -->``, gives the kind of the snippet:

- ``patched``: a program that is run with ``python -m dhaga``;
- ``pytest``: a file of tests;
- ``fragment``: a part of a program, which is only compiled;
- ``fails``: a program that ends with the shown error;
- ``timed``: a program whose output contains figures with a decimal point, which may differ;
- ``NAME.py``: a file for the snippets below it on the page, which start in its folder;
- ``postgres`` or ``redis``: a program that uses the server at ``DATABASE_URL`` or ``REDIS_URL``;
- ``monitoring``: a program for CPython 3.12 or later.
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
"""For each kind: the variable that the program reads, the variable of the tests, and the default of the latter."""

FAILING = """\
import os, runpy, sys, traceback
try:
    runpy.run_path("program.py", run_name="__main__")
except Exception as error:
    print(*traceback.format_exception_only(error), sep="", end="", flush=True)
    os._exit(0)  # without waiting for the dhagas that are left
sys.exit("it did not fail")
"""
"""A program that runs the snippet and prints the last lines of its traceback, which contain no place in the library."""


class Snippet(NamedTuple):
    """A program on a page. ``output``: its output; None if the page does not show the output."""

    line: int
    code: str
    kind: str = ""
    output: str | None = None

    def run(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the snippet in its own process. A snippet ``NAME.py`` is written to this file and imported."""
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
        """Run the snippet. Raises: AssertionError if it fails, or if its output differs from the page."""
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
