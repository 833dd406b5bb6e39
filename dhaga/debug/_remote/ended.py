"""Finds the files of inspectors whose processes have ended without removing these files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..._kernel.platform.system import system


def files_of_ended(folder: Path, prefix: str, suffix: str) -> Iterator[Path]:
    """Yield the files of ended processes. In each file name, the PID is between ``prefix`` and ``suffix``."""
    for path in folder.glob(f"{prefix}*{suffix}"):
        number = path.name.removeprefix(prefix).removesuffix(suffix)
        if number.isdecimal() and not system.process_lives(int(number)):
            yield path
