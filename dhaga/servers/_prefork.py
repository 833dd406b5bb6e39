"""The prefork master: it listens, forks workers that serve, replaces dead ones, and reloads them on SIGHUP.

The master is plain standard code without threads, loop or dhagas, so that it may fork at any time; it never imports the
program it serves (``_worker_process`` does). It keeps the listening sockets open for its whole life: connections wait
in their backlog while workers come and go, so that none is lost.

Workers: one per slot. ``serving[slot]`` is the current generation, ``starting[slot]`` the next one during a reload; a
worker in neither was told to end. A dead worker's slot is in ``respawn_at``, later each time it dies early.
Reload: fork one new worker. When that worker serves, fork the rest. When all of them serve, they become ``serving``,
and the old workers drain. If a new worker dies before that, the reload ends and the old generation stays.
Signals only write a byte to the self-pipe; one loop reads the self-pipe, the workers' pipes and the clock. A worker
told to end gets ``kill_at``, after which it is killed. Only this loop changes the state, so that no lock is needed.
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
from ._listeners import BACKLOG, Address, close_all, format_address, listen
from ._service import GRACE, Setup
from ._signal_pipe import SignalPipe
from ._worker_process import CLEANUP_SECONDS, DRAINED, EXIT_SECONDS, SERVES, Worker

logger = logging.getLogger("dhaga")

RESPAWN_DELAYS = 0.1, 10.0
"""Seconds until a dead worker is replaced: the first delay, and the longest. The delay doubles with each early death.
"""

STABLE_SECONDS = 10.0
"""A worker that has lived longer did not die early: its slot starts again at the first delay."""


def flush_output() -> None:
    """Flush buffered output, because each child would write it again."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None: the descriptor was closed at the start (``>&-``)
            with contextlib.suppress(OSError):  # a full disk, or a closed pipe
                stream.flush()


class WorkerProcess:
    """The master's state of a worker.

    ``pipe``: brings SERVES, then DRAINED when the worker exits, and EOF when it ends; ``kill_at``: the worker's
    deadline to end.
    """

    def __init__(self, pid: int, slot: int, pipe: standard.socket) -> None:
        self.pid = pid
        self.slot = slot
        self.pipe = pipe
        self.started_at = originals.monotonic()
        self.ready = False  # it has reported that it serves
        self.kill_at = math.inf

    def extend_life(self, seconds: float) -> None:
        """Move the deadline, if it is earlier, to ``seconds`` from now."""
        self.kill_at = max(self.kill_at, originals.monotonic() + seconds)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Master:
    """Listens, and forks workers that serve: ``Master(setup, address, workers=4).run()``.

    A dead worker is replaced. SIGHUP: new workers, which import the program anew, replace the old workers once all of
    them serve; if one fails to start, the old workers stay. SIGTERM: drain for ``grace`` seconds; a second SIGTERM,
    SIGINT or SIGQUIT: end at once. ``threads``: OS threads per worker, with a server each. ``reuse_port``: a listening
    socket per worker (SO_REUSEPORT, the kernel distributes connections) instead of a shared one. ``scheme``: with it,
    such as ``http``, the log shows URLs instead of addresses.
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
        self.listeners: list[list[socket]] = []  # by slot
        self.workers: dict[int, WorkerProcess] = {}  # live ones, by pid
        self.serving: dict[int, WorkerProcess] = {}  # the current generation, by slot
        self.starting: dict[int, WorkerProcess] = {}  # the next generation, by slot
        self.respawn_at: dict[int, float] = {}  # by slot
        self.early_exits: dict[int, int] = {}  # consecutive ones, by slot
        self.stop_signal: int | None = None  # sent to all workers; None while the master serves
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
        """Serve until a signal ends the master. From: main code, while there are no dhagas.

        Returns: an exit status. Raises: OSError, RuntimeError; in the workers SystemExit.
        """
        # A scheduler of main code that has waited, such as for a database, does no harm.
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
        """Return another listener at the same address, or the same one if its family has no SO_REUSEPORT."""
        if listener.family not in (AF_INET, AF_INET6) or not listener.getsockopt(SOL_SOCKET, SO_REUSEPORT):
            return listener
        return listen(listener.getsockname()[:2], self.backlog, True)[0]

    def supervise(self) -> None:
        """Start the workers, then handle signals, pipes and deadlines until no worker is left."""
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

    # ---- time

    def poll_timeout(self) -> float | None:
        """Return the seconds until the next deadline, or None without one."""
        next_time = min(
            [*self.respawn_at.values(), *(worker.kill_at for worker in self.workers.values())], default=math.inf
        )
        return None if next_time == math.inf else max(0.0, next_time - originals.monotonic())

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
            if number in self.handlers:  # otherwise for a handler of the embedding program
                self.handlers[number]()

    def reload(self) -> None:
        """Fork the first worker of a new generation, unless the master is stopping."""
        if self.stop_signal is not None:
            return
        self.terminate(self.starting.values(), signal.SIGTERM)  # left by an unfinished reload; some may already serve
        self.starting = {}
        self.fork_new(self.slots[:1])  # only one worker at first, so that an error of the program is logged once

    def fork_new(self, slots: Iterable[int]) -> None:
        try:
            for slot in slots:
                self.starting[slot] = self.fork(slot)
        except OSError as error:
            self.abort_reload(f"no worker could be forked: {error}")

    def drain(self) -> None:
        """Give workers ``grace`` seconds to finish their requests; at the second call, end them at once."""
        self.stop_workers(signal.SIGTERM if self.stop_signal is None else signal.SIGINT)

    def quit(self) -> None:
        """End the workers at once; at the second call, kill them."""
        self.stop_workers(signal.SIGINT if self.stop_signal in (None, signal.SIGTERM) else signal.SIGKILL)

    def stop_workers(self, number: int) -> None:
        """Close the listeners and send every worker this signal; ``run`` returns when the last worker has ended."""
        self.stop_signal = number
        self.starting = {}
        if self.workers:
            logger.info("master %d ends the workers with %s", os.getpid(), signal.Signals(number).name)
        self.close_listeners()
        self.respawn_at.clear()
        self.terminate(self.workers.values(), number)

    def terminate(self, workers: Iterable[WorkerProcess], number: int) -> None:
        """Send workers a signal that ends them, and set the deadline after which they are killed.

        One that drains already gets no second SIGTERM, which would end its requests at once.
        """
        seconds = {signal.SIGTERM: self.grace + 2 * CLEANUP_SECONDS, signal.SIGINT: CLEANUP_SECONDS}.get(
            signal.Signals(number), math.inf
        )
        for worker in set(workers) & set(self.workers.values()):  # not reaped yet: a pid may be reused
            if number == signal.SIGTERM and worker.kill_at < math.inf:
                continue
            worker.kill_at = originals.monotonic() + seconds
            worker.signal(number)

    # ---- workers

    def on_pipe_readable(self, worker: WorkerProcess) -> None:
        """Record that a worker serves, exits, or has closed its pipe (by its death, for example)."""
        if worker.pipe.fileno() < 0:  # reaped earlier in this round
            return
        report = worker.pipe.recv(1)
        if report == DRAINED:
            worker.extend_life(EXIT_SECONDS)
        elif report == SERVES:
            worker.ready = True
            self.announce()
            logger.info("worker %d serves", worker.pid)
            if worker in self.starting.values():
                self.advance_reload()
        else:
            self.close_pipe(worker)

    def announce(self) -> None:
        """Log the master's addresses, once: the program was imported, so requests are answered from now on."""
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
        """Fork the rest of the generation when its first worker serves; when all serve, drain the old generation."""
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
        """Handle ended workers; as process 1 of a container, also reap adopted children."""
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
        """Keep the old workers, because a new worker failed to start; without old workers, stop the master."""
        starting, self.starting = self.starting, {}
        if self.serving or self.respawn_at:
            logger.error("%s: the old workers keep serving, the reload is abandoned", why)
            self.terminate(starting.values(), signal.SIGTERM)
        else:
            logger.error("%s: the master gives up", why)
            self.status = 1
            self.stop_workers(signal.SIGINT)

    def schedule_respawn(self, worker: WorkerProcess, exit_description: str) -> None:
        """Set the time to replace a dead worker; the delay doubles with each consecutive early death."""
        now, slot = originals.monotonic(), worker.slot
        del self.serving[slot]
        self.early_exits[slot] = 0 if now - worker.started_at > STABLE_SECONDS else self.early_exits.get(slot, -1) + 1
        shortest, longest = RESPAWN_DELAYS
        pause = min(longest, shortest * 2 ** min(self.early_exits[slot], 30))
        logger.error("worker %d %s; another one starts in %.1f s", worker.pid, exit_description, pause)
        self.respawn_at[slot] = now + pause

    def fork(self, slot: int) -> WorkerProcess:
        """Fork a worker. In the child, this raises SystemExit when the service has ended. Raises: OSError."""
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
            raise SystemExit(worker.run(worker_end))
        worker_end.close()
        process = self.workers[pid] = WorkerProcess(pid, slot, pipe)
        self.selector.register(pipe, 1, functools.partial(self.on_pipe_readable, process))
        return process

    def drop_master_state(self, slot: int) -> None:
        """Close, in the child, the files of the master and of other workers, and reset the signals."""
        for listeners in self.listeners:
            close_all([listener for listener in listeners if listener not in self.listeners[slot]])
        self.signal_pipe.close()
        for number in self.handlers:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closing terminal sends it to all of its processes
        self.selector.close()
        for worker in self.workers.values():
            worker.pipe.close()


def describe_exit(status: int) -> str:
    """Return a ``waitpid`` status in words."""
    code = os.waitstatus_to_exitcode(status)
    return f"ended with status {code}" if code >= 0 else f"was killed by signal {-code} ({signal.strsignal(-code)})"
