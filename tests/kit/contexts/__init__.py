"""Tables of what code sees of its starter's states, each made by a program of its own (``__main__.py``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE = 120
"""Seconds after which a program that hangs is killed; the machine may be busy."""

IN_THE_CONTEXT = "context_variable", "flask_request", "opentelemetry_context"
"""The states that go with a context alone. Django's are marked by asgiref with the thread that has set them."""

Seen = dict[str, dict[str, "str | None"]]
"""By user, by state: what was seen."""

Table = dict[str, Seen]
"""By way to start code."""


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
    """Return whose values of a state code has seen that was started in a way."""
    return {whose(user, seen[state]) for user, seen in table[way].items()}


def whose(user: str, value: str | None) -> str:
    if value is None:
        return "nothing"
    return {user: "the user's", "starter": "the starter's", "a loop": "a loop"}.get(value, "another's")
