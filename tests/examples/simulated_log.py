"""A program on the write-ahead log whose host is killed again and again: no acknowledged record may be lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import dhaga
from dhaga.simulation import current
from examples.wal import WriteAheadLog

WRITERS, RECORDS, DROPS, KILLS = 3, 6, 3, 3
SEGMENT_BYTES = 120
"""So few that a segment holds one batch or two."""


class Client:
    """What the clients know: the records that were acknowledged, and up to where they are needed no more."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.dropped = 0
        self.number = 0

    def check(self, found: dict[int, bytes]) -> None:
        for sequence, payload in self.acknowledged.items():
            if sequence > self.dropped:
                assert found.get(sequence) == payload, f"record {sequence}, {payload!r}, is {found.get(sequence)!r}"

    def write(self, log: WriteAheadLog) -> None:
        for _ in range(RECORDS):
            self.number += 1
            payload = b"%d " % self.number + b"x" * random.randrange(60)
            self.acknowledged[log.append(payload)] = payload
            if random.random() < 0.3:
                dhaga.sleep(random.random() * 0.01)

    def drop(self, log: WriteAheadLog) -> None:
        for _ in range(DROPS):
            dhaga.sleep(random.random() * 0.03)
            upto = max(self.acknowledged, default=0) - random.randrange(5)
            self.dropped = max(self.dropped, upto)
            log.checkpoint(upto)


def serve(path: Path, client: Client) -> None:
    with WriteAheadLog(path, SEGMENT_BYTES) as log:
        client.check(dict(log.replay()))
        with dhaga.Scope() as scope:
            for _ in range(WRITERS):
                scope.spawn(client.write, log)
            scope.spawn(client.drop, log)


def cut_checkpoint() -> None:
    """Kill the host while a checkpoint drops several segments: the log can be opened again."""
    host, dropping = current().network.host("shop"), threading.Event()
    host.disk.set(sync=(0.1, 0.2))

    def serve(append: bool) -> None:
        with WriteAheadLog(host.disk.path / "log", SEGMENT_BYTES // 2) as log:
            numbers = [number for number, _ in log.replay()]
            assert numbers == list(range(numbers[0], 9)) if numbers else append
            if append:
                for _ in range(8):
                    log.append(b"x" * 40)
                dropping.set()
                log.checkpoint(7)

    host.start(serve, append=True)
    dropping.wait()
    dhaga.sleep(random.random() * 0.3)
    host.kill()
    host.start(serve, append=False).result()


def program() -> None:
    host, client = current().network.host("shop"), Client()
    running = host.start(serve, host.disk.path / "log", client)
    for _ in range(KILLS):
        dhaga.sleep(random.random() * random.choice((0.003, 0.03, 0.1)))
        running = host.restart(random.choice(("drawn", "drawn", "lost", "kept")))
    running.result()
    host.restart("lost").result()
