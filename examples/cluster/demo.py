"""The demonstration: a fleet of small sources, a server, two workers, one of which may be killed in the middle."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from examples.backup import client
from examples.backup.demo import TOKEN, server
from examples.backup.rpc import Address, Client
from examples.backup.wire import BackupError
from examples.backup.workers import threads

from .fleet import Fleet, grow
from .outcome import Outcome
from .runner import Plan, conduct, forget


def demonstrate(plan: Plan, count: int, *, kill: bool, rtt: str | None = None) -> tuple[Outcome, str]:
    """Back a fleet up that is made for it, and look whether each source has one snapshot.

    Returns: what became of it, and what was found at the server.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-demo-")))
        fleet = Fleet.of(grow(folder / "fleet", count))
        place = stack.enter_context(server(folder / "server" / "store", ["--workers", "dhagas"]))
        host, _, port = place.rpartition(":")
        address = Address(host, int(port), TOKEN)
        nearest = replace(address, port=stack.enter_context(line_to(place, rtt))) if rtt else address
        broker = replace(plan.broker, folder=folder / "broker", queue=f"demo-{secrets.token_hex(4)}")
        plan = replace(plan, broker=broker, server=nearest, worker_options=replace(plan.worker_options, token=TOKEN))
        outcome = conduct(plan, fleet, kill_at=max(count // 4, 1) if kill else 0)
        forget(broker)
        return outcome, check(address, outcome)


@contextmanager
def line_to(place: str, rtt: str) -> Iterator[int]:
    """Run a relay with a delay. Returns: its port."""
    from benchmarks.backup.processes import running

    with running("benchmarks.backup.relay", "--to", place, "--rtt", rtt, "--rate", "1000mbit") as relay:
        yield int(json.loads(relay.line())["port"])


def check(address: Address, outcome: Outcome) -> str:
    """Count the snapshots of each source in what the server lists.

    Returns: what was found. Raises: BackupError if a source that was saved has another number than one.
    """
    unit = threads()
    asking = Client(unit, address, unit.threading.Event())
    try:
        found = Counter(snapshot.source for snapshot in client.snapshots(asking))
    finally:
        asking.close()
    wrong = [one.path for one in outcome.sources if found[one.path] != one.is_saved]
    if wrong:
        raise BackupError(f"{len(wrong)} sources have not exactly one snapshot: {', '.join(wrong[:5])}")
    return f"the server lists {found.total():,} snapshots: one of each source that was saved"
