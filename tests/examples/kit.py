"""What the tests of the backup share: trees, plans, and processes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.backup import client
from examples.backup.catalogue import Snapshot
from examples.backup.jobs import Plan
from examples.backup.rpc import Address, Client
from examples.backup.workers import Unit

ROOT = Path(__file__).parents[2]
LARGE = 1_100_000  # bytes: two batches of chunks


@dataclass
class Service:
    """A server, and how to reach it."""

    unit: Unit
    root: Path
    address: tuple[str, int]
    token: str = ""

    @classmethod
    def at(cls, unit: Unit, root: Path, place: str) -> Service:
        """A server in another process, at HOST:PORT."""
        host, port = place.split(":")
        return cls(unit, root, (host, int(port)))

    def plan(
        self,
        *,
        address: tuple[str, int] | None = None,
        workers: int = 8,
        token: str | None = None,
        patience: float = 20.0,
        bandwidth: float = 0.0,
    ) -> Plan:
        """How to run a job against it, with so many workers; dhagas on two threads."""
        host, port = address or self.address
        place = Address(host, port, self.token if token is None else token, patience)
        threads = workers if self.unit.name == "threads" else min(workers, 2)
        return Plan(self.unit, place, threads, workers // threads, bandwidth)


# ---- trees ----


def fill(root: Path, *, files: int = 24, seed: int = 1) -> Path:
    """Make a tree with some of everything that is saved."""
    chance = random.Random(seed)
    root.mkdir()
    for number in range(files):
        directory = root / f"d{number % 5}" / f"e{number % 3}"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"f{number}"
        file.write_bytes(chance.randbytes(chance.choice([0, 1, 700, 5_000, 60_000])))
        file.chmod(chance.choice([0o644, 0o600, 0o755, 0o444]))
        os.utime(file, ns=(0, 1_600_000_000_123_456_789 + number))
    (root / "large").write_bytes(chance.randbytes(LARGE))
    (root / "twice").write_bytes((root / "large").read_bytes())
    (root / "text").write_bytes(b"the same line\n" * 20_000)
    (root / "empty directory").mkdir(mode=0o750)
    (root / "read only").mkdir()
    (root / "read only" / "file").write_bytes(b"inside")
    (root / "read only").chmod(0o555)
    (root / "link").symlink_to("d0/e0/f0")
    (root / "dangling").symlink_to("/nowhere/at/all")
    (root / "directory link").symlink_to("d1")
    (root / "grüße ✓").write_bytes(b"a name beyond ASCII")
    if sys.platform != "darwin":
        Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe no text")).write_bytes(b"a name that is no text")
    os.utime(root / "empty directory", ns=(0, 1_500_000_000_000_000_001))
    os.utime(root / "link", ns=(0, 1_400_000_000_000_000_002), follow_symlinks=False)
    return root


def picture(root: Path, *, read: bool = True) -> dict[bytes, tuple[object, ...]]:
    """Tell everything about a tree that a restore must bring back."""
    base = os.fsencode(root)
    found = {b"": _look(base, read)}
    for directory, directories, files in os.walk(base):
        for name in directories + files:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, base)] = _look(path, read)
    return found


def _look(path: bytes, read: bool) -> tuple[object, ...]:
    status = os.lstat(path)
    if os.path.islink(path):
        return ("link", os.readlink(path), status.st_mtime_ns, status.st_uid, status.st_gid)
    content = None
    if read and not os.path.isdir(path):
        with open(path, "rb") as file:
            content = file.read()
    return (oct(status.st_mode), status.st_mtime_ns, status.st_uid, status.st_gid, content)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user who may not read everything: root may."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def snapshots_of(service: Service) -> list[Snapshot]:
    """What a server lists."""
    plan = service.plan()
    asking = Client(plan.unit, plan.address, plan.unit.threading.Event())
    try:
        return client.snapshots(asking)
    finally:
        asking.close()


# ---- processes ----


def command(*arguments: object) -> list[str]:
    """The command line of the backup."""
    return [sys.executable, "-m", "examples.backup", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=60)


@contextmanager
def server_process(store: Path, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server in a process of its own; give it and its HOST:PORT."""
    line = command("serve", "--store", store, *arguments)
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        match = re.fullmatch(r"listening on (\S+)\n", process.stdout.readline())
        if not match:
            raise AssertionError(process.communicate()[1])
        yield process, match[1]
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
