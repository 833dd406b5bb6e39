"""The disk that is measured."""

from __future__ import annotations

import tempfile
from pathlib import Path

IN_MEMORY = ("tmpfs", "ramfs")
"""File systems on which a sync does nothing."""


def file_system(path: Path) -> str:
    """Return the type of a path's file system, if the system reports it."""
    place = path.resolve()
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    above = [(point, kind) for point, kind in mounts if place.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else "unknown"


def default() -> Path:
    """Return a folder for temporary files, on a disk if possible."""
    folders = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.cwd()]
    return next((folder for folder in folders if folder.is_dir() and file_system(folder) not in IN_MEMORY), folders[0])
