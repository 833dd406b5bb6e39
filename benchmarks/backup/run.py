"""One backup of a tree by one rival through a relay, and the check that all data arrived."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.backup.processes import Child, running
from benchmarks.backup.quantities import rate
from benchmarks.backup.tree import TreeShape
from benchmarks.machine import cpu_seconds
from examples.backup import client
from examples.backup.jobs import Plan
from examples.backup.rpc import Address
from examples.backup.wire import BackupError
from examples.backup.workers import UNITS

PATIENCE = 20
"""Seconds for which the client retries if the server or the relay fails."""

POINTS = 40
"""Approximate number of points in the record of a run's progress."""


@dataclass(frozen=True)
class LinkProfile:
    """The line between client and server, in the form of the relay's arguments, and the CPUs of the processes."""

    rtt: str
    rate: str
    cpus: tuple[int, int] | None  # the client's CPU, and the CPU of relay and server; None: not pinned


@dataclass(frozen=True)
class BackupRun:
    """The figures of one backup.

    `seconds` and `cpu`: time and the client's CPU time from the first connection to the committed snapshot.
    `cpu_beside`: the client's CPU time before and after, to start the interpreter, to import and to end. `peak`: the
    client's maximum of resident bytes.
    """

    seconds: float
    cpu: float
    cpu_beside: float
    peak: int
    sent: int
    line: float  # the fraction used of what the line could have carried to the server meanwhile
    relay: float  # CPU seconds per second while the client ran
    server: float
    progress: list[tuple[float, int]]  # seconds since the client process was started, bytes sent to the server


class WrongBackup(RuntimeError):
    """Raised if the data in the store are not the data of the tree."""


def back_up(tree: Path, shape: TreeShape, workers: str, way: LinkProfile) -> BackupRun:
    """Back a tree up to a new store beside it, and let the server read the store again.

    Raises: WrongBackup, ProcessFailed.
    """
    near, far = way.cpus or (None, None)
    with tempfile.TemporaryDirectory(dir=tree.parent, prefix="store-") as store:
        serving = ("serve", "--store", store, "--port", 0, "--workers", "dhagas", "--threads", 1)
        with running("examples.backup", *serving, cpu=far) as server:
            place = server.line().rpartition(" ")[2]
            line = ("--to", place, "--rtt", way.rtt, "--rate", way.rate)
            with running("benchmarks.backup.relay", *line, cpu=far) as relay:
                run = _through(relay, server, [str(tree), *workers.split()], way, near)
            _verify(place, shape)
    return run


def _verify(place: str, shape: TreeShape) -> None:
    host, port = place.split(":")
    try:
        found = client.verify(Plan(UNITS["threads"](), Address(host, int(port)), threads=4), "latest")
    except BackupError as error:
        raise WrongBackup(f"what has arrived cannot be verified: {error}") from error
    arrived = TreeShape(found.files, found.bytes)
    if arrived != shape or found.problems:
        raise WrongBackup(f"{arrived} arrived of {shape}; {found.problems[:3]}")


def _through(relay: Child, server: Child, arguments: list[str], way: LinkProfile, cpu: int | None) -> BackupRun:
    port = json.loads(relay.line())["port"]
    used = [_used(relay), _used(server)]
    began = monotonic()
    summary, cpu_in_all = _backup(*arguments, "--to", f"127.0.0.1:{port}", cpu=cpu)
    lasted = monotonic() - began
    shares = [(_used(child) - before) / lasted for child, before in zip((relay, server), used, strict=True)]
    report = json.loads(relay.end())
    return BackupRun(
        seconds=summary["seconds"],
        cpu=summary["cpu_seconds"],
        cpu_beside=cpu_in_all - summary["cpu_seconds"],
        peak=summary["peak_rss"],
        sent=summary["sent"],
        line=report["up"] / (rate(way.rate) * summary["seconds"]),
        relay=shares[0],
        server=shares[1],
        progress=_thinned([(round(at - began, 2), count) for at, count in report["history"] if at >= began]),
    )


def _backup(*arguments: str, cpu: int | None) -> tuple[dict[str, Any], float]:
    """Run the client. Returns: its summary, and the CPU seconds of the whole process."""
    with running("examples.backup", "backup", *arguments, "--patience", PATIENCE, "--json", cpu=cpu) as child:
        return child.outcome()


def _used(child: Child) -> float:
    return cpu_seconds(child.process.pid) or 0.0


def _thinned(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    return points[:: len(points) // POINTS + 1] + points[-1:]
