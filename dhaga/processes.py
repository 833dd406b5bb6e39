"""Processes: a master that listens, and the workers that it forks, which serve what comes in.

The master is plain standard code, without a thread or a loop, so that it may fork; it never runs the program that is
served. Connections wait in listening sockets that the master keeps, so that none is lost while workers come and go.
What a worker does: ``services.py``.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import signal
import socket as standard
import sys
from collections.abc import Callable, Iterable, Iterator
from socket import AF_INET, AF_INET6, SO_REUSEPORT, SOL_SOCKET

from .kernel import originals
from .kernel.scheduler import schedulers
from .kernel.waiting import here
from .listeners import BACKLOG, Address, close_all, listen, name_of_address
from .services import QUICK, Service, Setup
from .socket import socket

logger = logging.getLogger("dhaga")

GRACE = 30.0
"""Seconds that requests have to finish when a worker is to end. Whoever stops the master must wait for longer."""

PAUSES = 0.1, 10.0
"""Seconds until a worker that has died is replaced: at first, and at most, when others like it die at once."""

SETTLED = 10.0
"""Seconds after which the death of a worker is not taken for that of the one before it."""


class Signals:
    """Signals as something to read: each is a byte, its number, that comes out of ``ear``."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers = set(numbers)
        self.ear, self.button = originals.socketpair()
        for end in (self.ear, self.button):
            end.setblocking(False)
        self.former_fd = signal.set_wakeup_fd(self.button.fileno(), warn_on_full_buffer=False)
        self.former = {number: signal.signal(number, nothing) for number in self.numbers}

    def heard(self) -> bytes:
        try:
            return self.ear.recv(4096)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Let signals do what they did before."""
        for number, handler in self.former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.former_fd)
        self.ear.close()
        self.button.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold signals off during a fork: those for the child are not to reach the ear that it shares."""
        former = signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)


def nothing(number: int, frame: object) -> None:
    """Handle a signal whose number is read elsewhere."""


class Worker:
    """What the master knows of a worker, at the end of a ``line``. ``kill_at``: when it is to have ended."""

    def __init__(self, pid: int, slot: int, line: standard.socket) -> None:
        self.pid = pid
        self.slot = slot
        self.line = line
        self.born = originals.monotonic()
        self.ready = False  # to replace an old one: it serves
        self.kill_at = math.inf

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Master:
    """Listen, and have worker processes serve: ``Master(setup, address, workers=4).run()``.

    A worker that dies is replaced. SIGHUP: new workers, which import the program anew, replace the old ones once all of
    them serve; if one fails to, the old ones stay. SIGTERM: drain, for ``grace`` seconds; a second one, SIGINT or
    SIGQUIT: end at once. ``threads``: OS threads of each worker, with a server each. ``reuse_port``: a listening socket
    for each worker, among which the kernel spreads connections, instead of one that all share.
    """

    def __init__(
        self,
        setup: Setup,
        address: Address,
        *,
        workers: int = 1,
        threads: int = 1,
        grace: float = GRACE,
        backlog: int = BACKLOG,
        reuse_port: bool = False,
    ) -> None:
        if workers < 1 or threads < 1:
            raise ValueError(f"workers and threads must be one or more, not {workers!r} and {threads!r}")
        self.setup = setup
        self.address = address
        self.threads = threads
        self.grace = grace
        self.backlog = backlog
        self.reuse_port = reuse_port
        self.slots = range(workers)
        self.listeners: list[list[socket]] = []  # by slot
        self.workers: dict[int, Worker] = {}  # all that live, by pid
        self.serving: dict[int, Worker] = {}  # by slot, as are the next three
        self.coming: dict[int, Worker] = {}
        self.due: dict[int, float] = {}  # when to replace one that has died
        self.deaths: dict[int, int] = {}  # in a row
        self.ending: int | None = None  # the signal that was sent to all
        self.status = 0
        self.reactions: dict[int, Callable[[], object]] = {
            signal.SIGHUP: self.reload,
            signal.SIGTERM: self.drain,
            signal.SIGINT: self.quit,
            signal.SIGQUIT: self.quit,
            signal.SIGCHLD: self.reap,
        }

    def run(self) -> int:
        """Serve until a signal ends it. From: main code, before anything has parked. Returns: an exit status.

        Raises: OSError, RuntimeError; in the workers SystemExit.
        """
        if schedulers or here.main is not None:
            raise RuntimeError("a master forks, and must do so before anything has parked or been spawned")
        pid = os.getpid()
        self.listeners = self.listen()
        self.selector = originals.DefaultSelector()
        self.signals = Signals(self.reactions)
        try:
            self.attend()
        finally:
            if pid == os.getpid():
                self.close()
        return self.status

    def listen(self) -> list[list[socket]]:
        first = listen(self.address, self.backlog, self.reuse_port)
        if not self.reuse_port:
            return [first] * len(self.slots)
        return [first, *([self.another(listener) for listener in first] for _ in self.slots[1:])]

    def another(self, listener: socket) -> socket:
        """Return one more at the same address, or the same one where the kernel would not spread connections."""
        if listener.family not in (AF_INET, AF_INET6) or not listener.getsockopt(SOL_SOCKET, SO_REUSEPORT):
            return listener
        return listen(listener.getsockname()[:2], self.backlog, True)[0]

    def attend(self) -> None:
        """Start the workers, and do what signals, workers and time ask for until no worker is left."""
        where = ", ".join(name_of_address(listener.getsockname()) for listener in self.listeners[0])
        logger.info("master %d listens at %s", os.getpid(), where)
        self.selector.register(self.signals.ear, 1, self.hear)
        self.reload()
        while self.workers or self.ending is None:
            for key, _ in self.selector.select(self.seconds_left()):
                key.data()
            self.kill_late_ones()
            self.replace_dead_ones()

    def close(self) -> None:
        self.signals.close()
        self.selector.close()
        self.close_listeners()

    def close_listeners(self) -> None:
        for listeners in self.listeners:
            close_all(listeners)

    # ---- time

    def seconds_left(self) -> float | None:
        """Return how long nothing is to be done but to listen to others."""
        next_time = min([*self.due.values(), *(worker.kill_at for worker in self.workers.values())], default=math.inf)
        return None if next_time == math.inf else max(0.0, next_time - originals.monotonic())

    def kill_late_ones(self) -> None:
        now = originals.monotonic()
        for worker in self.workers.values():
            if worker.kill_at <= now:
                logger.warning("worker %d has not ended in time and is killed", worker.pid)
                self.dismiss([worker], signal.SIGKILL)

    def replace_dead_ones(self) -> None:
        now = originals.monotonic()
        for slot in [slot for slot, moment in self.due.items() if moment <= now]:
            try:
                self.serving[slot] = self.fork(slot)
                del self.due[slot]
            except OSError as error:
                logger.error("no process for a worker: %s", error)
                self.due[slot] = now + PAUSES[1]

    # ---- signals

    def hear(self) -> None:
        for number in self.signals.heard():
            if number in self.reactions:  # the program that runs the master may have handlers of its own
                self.reactions[number]()

    def reload(self) -> None:
        """Start new workers, which replace the old ones once all of them serve."""
        if self.ending is not None:
            return
        self.dismiss(self.coming.values(), signal.SIGTERM)  # of a reload that has not come about: some serve already
        self.coming = {}
        self.bring_up(self.slots[:1])  # it goes ahead, so that what is wrong with the program is told once

    def bring_up(self, slots: Iterable[int]) -> None:
        try:
            for slot in slots:
                self.coming[slot] = self.fork(slot)
        except OSError as error:
            self.fail_to_come(f"no process for a worker: {error}")

    def drain(self) -> None:
        """End when what is under way is done, or after ``grace`` seconds; asked again, at once."""
        self.end(signal.SIGTERM if self.ending is None else signal.SIGINT)

    def quit(self) -> None:
        """End at once; asked again, by force."""
        self.end(signal.SIGINT if self.ending in (None, signal.SIGTERM) else signal.SIGKILL)

    def end(self, number: int) -> None:
        self.ending = number
        self.coming = {}
        if self.workers:
            logger.info("master %d ends the workers by %s", os.getpid(), signal.Signals(number).name)
        self.close_listeners()
        self.due.clear()
        self.dismiss(self.workers.values(), number)

    def dismiss(self, workers: Iterable[Worker], number: int) -> None:
        """Send workers a signal that ends them; see to it that it does."""
        seconds = {signal.SIGTERM: self.grace + 2 * QUICK, signal.SIGINT: QUICK}.get(signal.Signals(number), math.inf)
        for worker in set(workers) & set(self.workers.values()):  # the others have no pid any more
            worker.kill_at = originals.monotonic() + seconds
            worker.signal(number)

    # ---- workers

    def hear_from(self, worker: Worker) -> None:
        """Note that a worker serves, or that it has ended its line, which it does with its own end."""
        if worker.line.fileno() < 0:  # it was reaped just now
            return
        if worker.line.recv(1):
            worker.ready = True
            logger.info("worker %d serves", worker.pid)
            if worker in self.coming.values():
                self.go_on_coming()
        else:
            self.close_line(worker)

    def close_line(self, worker: Worker) -> None:
        if worker.line.fileno() >= 0:
            self.selector.unregister(worker.line)
            worker.line.close()

    def go_on_coming(self) -> None:
        """Start the others when the first worker serves; when all do, have the old ones go."""
        if len(self.coming) < len(self.slots):
            self.bring_up(self.slots[1:])
        elif all(worker.ready for worker in self.coming.values()):
            self.change_over()

    def change_over(self) -> None:
        old, self.serving, self.coming = self.serving, self.coming, {}
        self.due.clear()
        self.deaths.clear()
        self.dismiss(old.values(), signal.SIGTERM)

    def reap(self) -> None:
        """Take note of the workers that have ended; as process 1 of a container, of any other child, too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            worker = self.workers.pop(pid, None)
            if worker is not None:
                self.close_line(worker)
                self.bury(worker, how_it_ended(status))

    def bury(self, worker: Worker, how: str) -> None:
        if self.ending is not None:
            logger.info("worker %d %s", worker.pid, how)
        elif self.coming.get(worker.slot) is worker:
            self.fail_to_come(f"worker {worker.pid} {how} before it served")
        elif self.serving.get(worker.slot) is worker:
            self.plan_another(worker, how)
        else:
            logger.info("worker %d %s", worker.pid, how)

    def fail_to_come(self, why: str) -> None:
        """Stay with the old workers, as a new one has failed to come up; end, if there are none."""
        coming, self.coming = self.coming, {}
        if self.serving or self.due:
            logger.error("%s: the old workers go on, nothing is reloaded", why)
            self.dismiss(coming.values(), signal.SIGTERM)
        else:
            logger.error("%s: the master gives up", why)
            self.status = 1
            self.end(signal.SIGINT)

    def plan_another(self, worker: Worker, how: str) -> None:
        """Have a worker that died replaced, the later the more have died as soon."""
        now, slot = originals.monotonic(), worker.slot
        del self.serving[slot]
        self.deaths[slot] = 0 if now - worker.born > SETTLED else self.deaths.get(slot, -1) + 1
        shortest, longest = PAUSES
        pause = min(longest, shortest * 2 ** min(self.deaths[slot], 30))
        logger.error("worker %d %s; another one starts in %.1f s", worker.pid, how, pause)
        self.due[slot] = now + pause

    def fork(self, slot: int) -> Worker:
        """Start a worker. In the child this raises SystemExit when all is done."""
        line, its_end = originals.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        with self.signals.held():
            try:
                pid = os.fork()
            except OSError:
                line.close()
                its_end.close()
                raise
            if not pid:
                self.become_worker(slot)
        if not pid:
            line.close()
            raise SystemExit(Service(self.setup, self.listeners[slot], self.threads, self.grace).run(its_end))
        its_end.close()
        worker = self.workers[pid] = Worker(pid, slot, line)
        self.selector.register(line, 1, functools.partial(self.hear_from, worker))
        return worker

    def become_worker(self, slot: int) -> None:
        """Let go of what is the master's, and the other workers', in the child."""
        for listeners in self.listeners:
            close_all([listener for listener in listeners if listener not in self.listeners[slot]])
        self.signals.close()
        for number in self.reactions:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that closes tells all of its processes
        self.selector.close()
        for worker in self.workers.values():
            worker.line.close()


def how_it_ended(status: int) -> str:
    """Say in words what ``waitpid`` says of a child."""
    code = os.waitstatus_to_exitcode(status)
    return f"ended with status {code}" if code >= 0 else f"was killed by signal {-code} ({signal.strsignal(-code)})"
