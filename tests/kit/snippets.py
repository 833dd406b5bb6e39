"""The Python snippets of a page of documentation, and what they print when they run as they stand there.

A fenced block of ``python`` is a program. A fence of ``text`` right below it is what the program prints. A comment
right above it, ``<!-- snippet: WORD -->``, says how it is meant: ``patched``, run by ``python -m dhaga``; ``pytest``, a
file of tests; ``fragment``, a part of a program, which is compiled only; ``NAME.py``, a file for the snippets below it
on the page, which start in its folder.
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


class Snippet(NamedTuple):
    """A program on a page; ``output``: what it prints, None where the page does not show it."""

    line: int
    code: str
    kind: str = ""
    output: str | None = None

    def run(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run it in a process of its own, or write the file that it is."""
        name = f"test_{self.line}.py"
        commands = {"": ["-c", self.code], "patched": ["-m", "dhaga", "-c", self.code]}
        if self.kind not in commands:
            name = self.kind if self.kind.endswith(".py") else name
            (folder / name).write_text(self.code)
        command = commands.get(self.kind, ["-m", "pytest", "-q", "-p", "no:cacheprovider", name])
        if self.kind == "fragment":
            command = ["-m", "py_compile", name]
        elif self.kind.endswith(".py"):
            command = ["-c", f"import {self.kind.removesuffix('.py')}"]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def snippets(text: str) -> list[Snippet]:
    """Return the Python snippets of a page, in order."""
    return [
        Snippet(text.count("\n", 0, found.start("code")), found["code"], found["kind"] or "", found["output"])
        for found in FENCE.finditer(text)
    ]
