"""The samples by service, number of clients and server. In each round, the servers take turns.

A sample has rate (answers per second), by_cpu (answers per second of the server's CPU time), share (the fraction of a
CPU that the server used); first, p50, p90, p99, max in ms; least, most, failed; memory in MB; client (the fraction of a
CPU that the load used).
"""

import json
import sys
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from benchmarks import samples
from benchmarks.machine import cpus
from benchmarks.samples import Sample
from benchmarks.service import database
from benchmarks.service.load import load
from benchmarks.service.servers import SERVICES, Service, missing, serving


class Results(samples.Results):
    """The samples by service, number of clients and server. A server that does not start is recorded as a failure."""

    def save(self, path: Path) -> None:
        """Write the rows to a file, and replace its rows with these names. Raises: ValueError if the file's other rows
        were measured on another machine, or to another extent.
        """
        kept, failures = self.samples, self.failures
        if path.exists():
            before = Results(**json.loads(path.read_text()))
            others = {row: before.samples[row] for row in before.samples if row not in kept}
            if others and before.where != self.where:
                raise ValueError(f"{path} has rows that were measured elsewhere or otherwise: {', '.join(others)}")
            kept = others | kept
            failures = {row: before.failures[row] for row in before.failures if row not in self.samples} | failures
        ordered = {row: kept[row] for row in rows(SERVICES) if row in kept}
        path.write_text(json.dumps(asdict(Results(self.where, ordered, failures)), indent=1) + "\n")


def row_of(name: str, clients: int) -> str:
    """Return the name of the row of a service with a number of clients."""
    return f"{name} {clients}"


def rows(names: Iterable[str]) -> list[str]:
    """Return the rows of these services that are measured by default."""
    return [row_of(name, clients) for name in names for clients in SERVICES[name].clients]


def measure(service: Service, server: str, clients: int, seconds: float) -> Sample:
    """Load a new server. Server and clients have a CPU each, if there are two."""
    mine, theirs = cpus() or (None, None)
    with serving(service, server, mine) as tree:
        before = tree.cpu()
        seen = load(tree.port, clients, seconds, service.path, theirs)
        spent = tree.cpu() - before
        memory = tree.resident()
    return {
        "rate": seen["answers"] / seen["seconds"],
        "by_cpu": seen["answers"] / spent,
        "share": spent / seen["seconds"],
        **{key: seen[key] / 1e3 for key in ("first", "p50", "p90", "p99", "max")},
        **{key: seen[key] for key in ("least", "most", "failed", "client")},
        "memory": memory,
    }


def run(
    names: Iterable[str],
    crowds: Collection[int] | None,
    servers: Collection[str],
    rounds: int,
    seconds: float,
    where: dict[str, Any],
) -> Results:
    """Measure each service under each load, the servers in turn. A server that fails in a row is not run again."""
    if cpus() is None:
        sys.exit("two CPUs are needed, one for the server and one for the clients")
    results = Results(where)
    for name in names:
        service = SERVICES[name]
        if service.databases:
            database.fill()
        here = [server for server in service.servers if server in servers and not missing(service, server)]
        for clients in crowds or service.clients:
            row = row_of(name, clients)
            for number in range(1, rounds + 1):
                for server in here:
                    if server in results.failures.get(row, {}):
                        continue
                    print(f"{row}, round {number} of {rounds}: {server}", file=sys.stderr, flush=True)
                    try:
                        sample = measure(service, server, clients, seconds)
                        results.samples.setdefault(row, {}).setdefault(server, []).append(sample)
                    except (OSError, RuntimeError, SubprocessError) as error:
                        results.failures.setdefault(row, {})[server] = f"{type(error).__name__}: {error}"
    return results
