"""A host with a disk, for the tests of disks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dhaga.simulation import Simulation


@contextmanager
def disk_of(seed: int = 1, **options: Any) -> Iterator[Any]:
    """A simulation with one host that has a disk. Yields: the host."""
    with Simulation(seed, preempt=None, **options) as world:
        host = world.network.host("server")
        host.disk.set(sync=0.001)
        yield host


def sync_names(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def contents(path: Path) -> dict[str, bytes]:
    """Return all files below a directory."""
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in sorted(path.rglob("*"))
        if each.is_file() and not each.is_symlink()
    }


def after_kill(prepare: Callable[[Path], object], seeds: int, act: Callable[[Path], object]) -> list[dict[str, bytes]]:
    """Return what is there after a kill that follows some acts, by many seeds; ``prepare`` is durable."""
    found = []
    for seed in range(seeds):
        with disk_of(seed) as host:
            prepare(host.disk.path)
            host.disk.sync()
            act(host.disk.path)
            host.kill()
            found.append(contents(host.disk.path))
    return found
