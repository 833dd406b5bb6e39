"""Troubles: what is done to a run from outside, at random moments; see ``echo.py`` and ``web.py`` for what clients do.

Each kind is a dhaga of the main code's scheduler, where signals are heard, too.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import signal as standard
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dhaga
from dhaga import signal, socket, subprocess
from tests.soak.excuses import BY_US

if TYPE_CHECKING:
    from tests.soak.run import Run

NO_LINGER = struct.pack("ii", 1, 0)
SIGNALS = (standard.SIGUSR1, standard.SIGCHLD)

HEARD = 10.0
"""Seconds within which a signal must have had its handler called, and a child must have ended."""

PAUSES = {"cancels": 0.02, "cutters": 0.1, "shortages": 4.0, "signals": 0.2, "children": 0.5, "collections": 1.0}
"""Seconds between two troubles of a kind, at most."""


class Troubles:
    """All of them, from ``start`` to ``stop``."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.choose = random.Random(f"{run.seed} troubles")
        self.limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.heard = dict.fromkeys(SIGNALS, 0)
        self.former: dict[int, Any] = {}
        self.makers: list[dhaga.Dhaga[None]] = []

    def start(self) -> None:
        """Begin. From: the main code."""
        for number in SIGNALS:
            self.former[number] = signal.signal(number, self.hear)
        kinds = (self.cancel, self.cut, self.run_short, self.send_signal, self.have_child, self.collect)
        for kind, make in zip(PAUSES, kinds, strict=True):
            self.makers.append(dhaga.spawn(self.make_many, kind, make, name=kind))

    def make_many(self, kind: str, make: Callable[[], bool]) -> None:
        """Make troubles of one kind until the run is over."""
        while not self.run.over:
            dhaga.sleep(self.choose.random() * PAUSES[kind])
            if make():
                self.run.ledger.troubles.add(kind)

    def stop(self) -> None:
        """See the makers off, and leave the process as it was. From: the main code, once the run is over."""
        for maker in self.makers:
            maker.result(HEARD)
        for number, handler in self.former.items():
            signal.signal(number, handler)

    # ---- the kinds; each tells whether to count one more

    def cancel(self) -> bool:
        """Cancel somebody, wherever that one is."""
        victims = list(self.run.victims)
        return bool(victims) and self.choose.choice(victims).cancel(BY_US)

    def cut(self) -> bool:
        """Have a connection cut at its server's end, if there is any."""
        if servers := self.run.servers():
            server = self.choose.choice(servers)
            server.scheduler.call(self.cut_one, server, self.choose.random(), self.choose.random() < 0.5)
        return False  # it is counted there

    def cut_one(self, server: Any, which: float, resets: bool) -> None:
        """Do so in the thread of the server: the connections do not change meanwhile."""
        connections = list(server.connections)
        if not connections:
            return
        connection = connections[int(which * len(connections))]
        self.run.cuts.note(server.address, connection.peer)
        if resets:
            try:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            except OSError:  # it is closed
                pass
        connection.cancel(BY_US)
        self.run.ledger.troubles.add("cuts")

    def run_short(self) -> bool:
        """Leave the process but a few file descriptors for a while."""
        shortage = self.run.shortage
        with self.run.descriptors:
            lowest = os.dup(1)
            os.close(lowest)
            shortage.lasts = True
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + self.choose.randint(0, 8), self.limits[1]))
                dhaga.sleep(self.choose.random() * 0.2)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)
                shortage.ended = time.monotonic()
                shortage.lasts = False
        return True

    def send_signal(self) -> bool:
        """Send a signal to the process, and wait for its handler."""
        before = self.heard[standard.SIGUSR1]
        os.kill(os.getpid(), standard.SIGUSR1)
        deadline = time.monotonic() + HEARD
        while self.heard[standard.SIGUSR1] == before:
            if time.monotonic() > deadline:
                self.run.ledger.fail(f"the handler of a signal was not called in {HEARD} s")
                return False
            dhaga.sleep(0.001)
        return True

    def hear(self, number: int, frame: object) -> None:
        """Be the handler of a signal, in the main code, and park there."""
        self.heard[number] += 1
        if self.heard[number] % 2:
            dhaga.sleep(0.001)

    def have_child(self) -> bool:
        """Have a process do something; its end is a signal, too."""
        began = time.monotonic()
        try:
            done = subprocess.run(["sh", "-c", "read line; echo $line; exit 7"], input=b"soak\n", capture_output=True)
        except OSError as error:
            if not self.run.shortage.explains(error, began):
                raise
            return False
        if (done.returncode, done.stdout) != (7, b"soak\n"):
            self.run.ledger.fail(f"a child process ended so: {done}")
        return True

    def collect(self) -> bool:
        """Collect garbage."""
        gc.collect()
        return True
