"""Tables of the states that code sees of its starter. A program (``__main__.py``) makes each table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE = 120
"""Number of seconds after which a hanging program is killed; the machine may be busy."""

IN_THE_CONTEXT = "context_variable", "flask_request", "opentelemetry_context"
"""The states that belong only to a context. asgiref also binds Django's states to the thread that has set them."""

Seen = dict[str, dict[str, "str | None"]]
"""For each user and state: the value that code has seen."""

Table = dict[str, Seen]
"""For each way to start code: the values that the code has seen."""


def table(name: str, *options: str, **environment: str) -> Table:
    """Return a table made by this Python with these options."""
    program = subprocess.run(
        [sys.executable, *options, "-m", __name__, name],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert program.returncode == 0, program.stderr
    made: Table = json.loads(program.stdout)
    return made


def exposes(table: Table, way: str, state: str) -> set[str]:
    """Return the owners of the values of a state that code has seen. ``way``: how the code was started."""
    return {whose(user, seen[state]) for user, seen in table[way].items()}


def whose(user: str, value: str | None) -> str:
    if value is None:
        return "nothing"
    return {user: "the user's", "starter": "the starter's", "a loop": "a loop"}.get(value, "another's")
