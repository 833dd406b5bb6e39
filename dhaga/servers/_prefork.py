"""The prefork master: a process that listens, forks workers that serve, replaces dead workers, and reloads on SIGHUP.

The master has no threads, loop or dhagas, so that it can fork at any time. The workers import the program, and the
master never does. The master keeps the listening sockets open until it stops. While workers are replaced, connections
wait in the backlog, so that none is lost.

Each slot, a number below the number of workers, has one worker. ``serving`` maps slots to the current generation of
workers, and ``starting`` maps slots to the next generation during a reload. A worker in neither mapping was sent a
signal to end, or drains because its program has exited. ``respawn_at`` maps the slots of dead and exiting workers to
the time at which a new worker starts. The delay doubles with each such end soon after a start.
A reload forks one new worker. When this worker serves, the master forks the other new workers. When all new workers
serve, they become ``serving``, and the old workers drain. If a new worker dies before it serves, the reload is
abandoned, and the old generation continues.
A signal only writes a byte to the self-pipe. One loop reads the self-pipe, the workers' pipes and the clock. Only this
loop changes the state, so that no lock is needed. The loop kills a worker that has not ended by its ``kill_at``.
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
from collections.abc import Callable, Iterable
from socket import AF_INET, AF_INET6, SO_REUSEPORT, SOL_SOCKET

from .._kernel import originals
from .._kernel.faces.arguments import check_seconds
from .._kernel.run.attachment import schedulers
from ..socket import socket
from ._listeners import BACKLOG, Address, close_all, format_address, listen, listen_at_target
from ._service import EXIT_FAILURE, GRACE, Setup
from ._signal_pipe import SignalPipe
from ._worker_process import CLEANUP_SECONDS, DRAINED, EXIT_SECONDS, EXITS, SERVES, Worker

logger = logging.getLogger("dhaga")

RESPAWN_DELAYS = 0.1, 10.0
"""The shortest and the longest delay, in seconds, until a dead or exiting worker is replaced.

The delay doubles with each early end.
"""

STABLE_SECONDS = 10.0
"""Age of a worker, in seconds, up to which its end counts as early. The end of an older worker resets the delay of its
slot to the shortest delay.
"""


MAX_POLL_SECONDS = 1e6
"""Maximum duration of one poll, in seconds. ``epoll_wait`` takes at most 2**31 - 1 ms, 25 days."""


def flush_output() -> None:
    """Flush the standard streams before a fork, because the child would write buffered output a second time."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the process was started without this stream (``>&-``)
            with contextlib.suppress(OSError):  # a full disk, or a closed pipe
                stream.flush()


class WorkerProcess:
    """The master's record of one worker.

    ``pipe``: the master's end of a pipe. The pipe receives SERVES when the worker serves, EXITS if the worker's program
    has exited, DRAINED when the worker begins to exit, and finally end-of-file. ``kill_at``: the time at which the
    master kills the worker.
    """

    def __init__(self, pid: int, slot: int, pipe: standard.socket) -> None:
        self.pid = pid
        self.slot = slot
        self.pipe = pipe
        self.started_at = originals.monotonic()
        self.ready = False  # the worker has reported SERVES
        self.kill_at = math.inf

    def extend_life(self, seconds: float) -> None:
        """Postpone ``kill_at`` to a time that is at least ``seconds`` seconds from now."""
        self.kill_at = max(self.kill_at, originals.monotonic() + seconds)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Master:
    """A master that listens, and forks workers that serve: ``Master(setup, address, workers=4).run()``.

    After SIGHUP, new workers import the program again, and replace the old workers once all new workers serve. After
    SIGTERM, workers drain for ``grace`` seconds. After SIGINT, SIGQUIT or a second SIGTERM, workers end at once.

    ``threads``: number of OS threads per worker, each with its own server.
    ``reuse_port``: if true, each worker has its own listening sockets (SO_REUSEPORT), and the kernel distributes
    connections among them.
    ``scheme``: a URL scheme such as ``http``. With a scheme, the log shows URLs instead of addresses.
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
        scheme: str = "",
    ) -> None:
        if workers < 1 or threads < 1:
            raise ValueError(f"workers and threads must be one or more, not {workers!r} and {threads!r}")
        self.setup = setup
        self.address = address
        self.threads = threads
        check_seconds(grace)
        self.grace = grace
        self.backlog = backlog
        self.reuse_port = reuse_port
        self.scheme = scheme
        self.slots = range(workers)
        self.listeners: list[list[socket]] = []  # the listeners of each slot
        self.workers: dict[int, WorkerProcess] = {}  # live workers, by pid
        self.serving: dict[int, WorkerProcess] = {}  # the current generation, by slot
        self.starting: dict[int, WorkerProcess] = {}  # the next generation, by slot
        self.respawn_at: dict[int, float] = {}  # the time of the next start, by slot
        self.early_exits: dict[int, int] = {}  # the number of times that the delay has doubled, by slot
        self.stop_signal: int | None = None  # the signal sent to all workers, or None while the master serves
        self.status = 0
        self.announced = False
        self.handlers: dict[int, Callable[[], object]] = {
            signal.SIGHUP: self.reload,
            signal.SIGTERM: self.drain,
            signal.SIGINT: self.quit,
            signal.SIGQUIT: self.quit,
            signal.SIGCHLD: self.reap,
        }

    def run(self) -> int:
        """Serve until a signal ends the master. From: main code, while the process has no dhagas.

        Returns: an exit status. Raises: OSError, RuntimeError; in the workers SystemExit.
        """
        # A scheduler without dhagas is allowed: main code may have waited for a database, for example.
        if any(scheduler.live for scheduler in schedulers):
            raise RuntimeError("a master forks, and must do so while this process has no dhagas")
        pid = os.getpid()
        self.listeners = self.listen()
        self.selector = originals.DefaultSelector()
        self.signal_pipe = SignalPipe(self.handlers)
        try:
            self.supervise()
        finally:
            if pid == os.getpid():
                self.close()
        return self.status

    def listen(self) -> list[list[socket]]:
        first = listen(self.address, self.backlog, self.reuse_port)
        if not self.reuse_port:
            return [first] * len(self.slots)
        return [first, *([self.listen_again(listener) for listener in first] for _ in self.slots[1:])]

    def listen_again(self, listener: socket) -> socket:
        """Return a second listener at the address of ``listener``, or ``listener`` itself if it lacks SO_REUSEPORT."""
        if listener.family not in (AF_INET, AF_INET6) or not listener.getsockopt(SOL_SOCKET, SO_REUSEPORT):
            return listener
        return listen_at_target(listener.family, listener.getsockname(), self.backlog, True)

    def supervise(self) -> None:
        """Start the workers, then handle signals, pipes and deadlines until the last worker has ended."""
        logger.info("master %d starts", os.getpid())
        self.selector.register(self.signal_pipe.read_end, 1, self.dispatch_signals)
        self.reload()
        while self.workers or self.stop_signal is None:
            for key, _ in self.selector.select(self.poll_timeout()):
                key.data()
            self.kill_overdue()
            self.respawn_due()

    def close(self) -> None:
        self.signal_pipe.close()
        self.selector.close()
        self.close_listeners()

    def close_listeners(self) -> None:
        for listeners in self.listeners:
            close_all(listeners)

    # ---- new workers

    def reload(self) -> None:
        """Fork the first worker of a new generation, unless the master is stopping."""
        if self.stop_signal is not None:
            return
        # Workers of an unfinished reload; some may already serve.
        self.terminate(self.starting.values(), signal.SIGTERM)
        self.starting = {}
        self.fork_new(self.slots[:1])  # only one worker, so that an error of the program is logged once

    def fork_new(self, slots: Iterable[int]) -> None:
        try:
            for slot in slots:
                self.starting[slot] = self.fork(slot)
        except OSError as error:
            self.abort_reload(f"no worker could be forked: {error}")

    def fork(self, slot: int) -> WorkerProcess:
        """Fork a worker. Raises: OSError; in the child SystemExit, when the child's service has ended."""
        pipe, worker_end = originals.socketpair()
        flush_output()
        with self.signal_pipe.blocked():
            try:
                pid = os.fork()
            except OSError:
                pipe.close()
                worker_end.close()
                raise
            if not pid:
                self.drop_master_state(slot)
        if not pid:
            pipe.close()
            processes = 1 if self.reuse_port else len(self.slots)
            worker = Worker(self.setup, self.listeners[slot], self.threads, self.grace, processes)
            try:
                raise SystemExit(worker.run(worker_end))
            except OSError:  # of a signal handler, for example; the caller would mistake it for an error of the fork
                logger.exception("worker %d has failed", os.getpid())
                raise SystemExit(EXIT_FAILURE) from None
        worker_end.close()
        process = self.workers[pid] = WorkerProcess(pid, slot, pipe)
        self.selector.register(pipe, 1, functools.partial(self.on_pipe_readable, process))
        return process

    def drop_master_state(self, slot: int) -> None:
        """Close the files of the master and of other workers, and reset the signal handlers. From: the child."""
        for listeners in self.listeners:
            close_all([listener for listener in listeners if listener not in self.listeners[slot]])
        self.signal_pipe.close()
        for number in self.handlers:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closing terminal sends SIGHUP to all of its processes
        self.selector.close()
        for worker in self.workers.values():
            worker.pipe.close()

    # ---- time

    def poll_timeout(self) -> float | None:
        """Return the seconds until the next deadline, up to ``MAX_POLL_SECONDS``, or None if there is no deadline."""
        next_time = min(
            [*self.respawn_at.values(), *(worker.kill_at for worker in self.workers.values())], default=math.inf
        )
        return None if next_time == math.inf else min(max(0.0, next_time - originals.monotonic()), MAX_POLL_SECONDS)

    def kill_overdue(self) -> None:
        now = originals.monotonic()
        for worker in self.workers.values():
            if worker.kill_at <= now:
                logger.warning("worker %d has not ended in time and is killed", worker.pid)
                self.terminate([worker], signal.SIGKILL)

    def respawn_due(self) -> None:
        now = originals.monotonic()
        for slot in [slot for slot, due in self.respawn_at.items() if due <= now]:
            try:
                self.serving[slot] = self.fork(slot)
                del self.respawn_at[slot]
            except OSError as error:
                logger.error("no worker could be forked: %s", error)
                self.respawn_at[slot] = now + RESPAWN_DELAYS[1]

    # ---- signals

    def dispatch_signals(self) -> None:
        for number in self.signal_pipe.read():
            if number in self.handlers:  # other signals belong to the embedding program
                self.handlers[number]()

    def drain(self) -> None:
        """Give workers ``grace`` seconds to finish their requests. A second call ends the workers at once."""
        self.stop_workers(signal.SIGTERM if self.stop_signal is None else signal.SIGINT)

    def quit(self) -> None:
        """End the workers at once. A second call kills the workers."""
        self.stop_workers(signal.SIGINT if self.stop_signal in (None, signal.SIGTERM) else signal.SIGKILL)

    def stop_workers(self, number: int) -> None:
        """Close the listeners and send a signal to all workers. ``run`` returns when the last worker has ended."""
        self.stop_signal = number
        self.starting = {}
        if self.workers:
            logger.info("master %d ends the workers with %s", os.getpid(), signal.Signals(number).name)
        self.close_listeners()
        self.respawn_at.clear()
        self.terminate(self.workers.values(), number)

    def terminate(self, workers: Iterable[WorkerProcess], number: int) -> None:
        """Send workers a signal that ends them, and set the time at which they are killed.

        A worker that already drains gets no second SIGTERM, which would end its requests at once.
        """
        seconds = {signal.SIGTERM: self.grace + 2 * CLEANUP_SECONDS, signal.SIGINT: CLEANUP_SECONDS}.get(
            signal.Signals(number), math.inf
        )
        for worker in set(workers) & set(self.workers.values()):  # a reaped worker's pid may be reused
            if number == signal.SIGTERM and worker.kill_at < math.inf:
                continue
            worker.kill_at = originals.monotonic() + seconds
            worker.signal(number)

    # ---- workers

    def on_pipe_readable(self, worker: WorkerProcess) -> None:
        """Read and handle a report of a worker: SERVES, EXITS, DRAINED, or end-of-file when the worker has ended."""
        if worker.pipe.fileno() < 0:  # reaped earlier in this round
            return
        report = worker.pipe.recv(1)
        if report == DRAINED:
            worker.extend_life(EXIT_SECONDS)
        elif report == EXITS:
            if self.stop_signal is None and self.serving.get(worker.slot) is worker:
                self.schedule_respawn(worker, "drains, because its program has exited")
        elif report == SERVES:
            worker.ready = True
            self.announce()
            logger.info("worker %d serves", worker.pid)
            if worker in self.starting.values():
                self.advance_reload()
        else:
            self.close_pipe(worker)

    def announce(self) -> None:
        """Log the master's addresses once, when the first worker serves: from then on, requests are answered."""
        if not self.announced and self.stop_signal is None:
            self.announced = True
            where = ", ".join(self.url_of(listener) for listener in self.listeners[0])
            hint = " (Ctrl+C ends it)" if sys.stderr is not None and sys.stderr.isatty() else ""
            logger.info("master %d listens at %s%s", os.getpid(), where, hint)

    def url_of(self, listener: socket) -> str:
        address = format_address(listener.getsockname())
        return f"{self.scheme}://{address}" if self.scheme and listener.family in (AF_INET, AF_INET6) else address

    def close_pipe(self, worker: WorkerProcess) -> None:
        if worker.pipe.fileno() >= 0:
            self.selector.unregister(worker.pipe)
            worker.pipe.close()

    def advance_reload(self) -> None:
        """Fork the rest of the new generation. If all are forked already and serve, drain the old generation."""
        if len(self.starting) < len(self.slots):
            self.fork_new(self.slots[1:])
        elif all(worker.ready for worker in self.starting.values()):
            self.switch_generation()

    def switch_generation(self) -> None:
        old, self.serving, self.starting = self.serving, self.starting, {}
        self.respawn_at.clear()
        self.early_exits.clear()
        self.terminate(old.values(), signal.SIGTERM)

    def reap(self) -> None:
        """Reap and handle ended workers. As process 1 of a container, also reap adopted children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            worker = self.workers.pop(pid, None)
            if worker is not None:
                self.close_pipe(worker)
                self.on_exit(worker, describe_exit(status))

    def on_exit(self, worker: WorkerProcess, exit_description: str) -> None:
        if self.stop_signal is not None:
            logger.info("worker %d %s", worker.pid, exit_description)
        elif self.starting.get(worker.slot) is worker:
            self.abort_reload(f"worker {worker.pid} {exit_description} before it served")
        elif self.serving.get(worker.slot) is worker:
            self.schedule_respawn(worker, exit_description)
        else:
            logger.info("worker %d %s", worker.pid, exit_description)

    def abort_reload(self, why: str) -> None:
        """End the new generation, because one of its workers failed to start.

        If there are no old workers, stop the master.
        """
        starting, self.starting = self.starting, {}
        if self.serving or self.respawn_at:
            logger.error("%s: the old workers keep serving, the reload is abandoned", why)
            self.terminate(starting.values(), signal.SIGTERM)
        else:
            logger.error("%s: the master gives up", why)
            self.status = 1
            self.stop_workers(signal.SIGINT)

    def schedule_respawn(self, worker: WorkerProcess, exit_description: str) -> None:
        """Set the time at which a dead or exiting worker is replaced. The delay doubles with each early end."""
        now, slot = originals.monotonic(), worker.slot
        del self.serving[slot]
        self.early_exits[slot] = 0 if now - worker.started_at > STABLE_SECONDS else self.early_exits.get(slot, -1) + 1
        shortest, longest = RESPAWN_DELAYS
        pause = min(longest, shortest * 2 ** min(self.early_exits[slot], 30))
        logger.error("worker %d %s; another one starts in %.1f s", worker.pid, exit_description, pause)
        self.respawn_at[slot] = now + pause


def describe_exit(status: int) -> str:
    """Return a description in words of an exit status from ``waitpid``."""
    code = os.waitstatus_to_exitcode(status)
    return f"ended with status {code}" if code >= 0 else f"was killed by signal {-code} ({signal.strsignal(-code)})"
