"""Random programs of signals, forks, pipes and exits, with the same results on threads and on dhagas.

Run: ``PYTHONPATH=. python tests/kit/random_endings.py FIRST COUNT`` and the same with ``python -m dhaga``. A program is
drawn from a seed and runs in a forked child. Its main code makes steps, and waits for everything that a step starts:

- *signal*: a handler ends a wait of main code: at once, with a thread, or with an error. The signal comes from main
  code, a thread, a timer or a forked child;
- *blocked*: ``sigwait`` receives a blocked signal, or a handler runs once the signal is unblocked;
- *fork*: in main code or in a thread; the child runs threads, writes to a pipe, and exits, is killed or leaves at once;
- *thread*: a thread ends with an error or a SystemExit, or it starts another thread;
- *command*: data that may be larger than a pipe go through a process.

Then the program ends in a random way, with exit handlers, daemons, and threads that are still alive. The results of all
seeds are printed: the lines that the program wrote, the errors in its stderr, and its exit status.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import json
import os
import queue
import random
import re
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from tests.kit.gates import GATES, PAUSE, REENTRANT, Gate, flag, lock, senders

STEPS = 4
PATIENCE = 20.0
"""Number of seconds after which a program counts as hung."""

ERROR = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt|Struck|Exit)\b.*)$", re.MULTILINE)


class Struck(Exception):
    """Raised by a signal handler."""


def tell(*words: object) -> None:
    os.write(TOLD[1], (" ".join(map(str, words)) + "\n").encode())


# ---- steps


NUMBERS = signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM


def signalled(draw: random.Random) -> str:
    """End a wait with a signal handler."""
    number, act = draw.choice(NUMBERS), draw.choice(("end", "thread", "raise"))
    sender = draw.choice([*senders(number)])
    gate = draw.choice(REENTRANT if act == "end" else GATES)()
    begun: list[threading.Thread] = []

    def handler(got: int, frame: object) -> None:
        if act == "raise":
            raise Struck
        if act == "end":
            gate.end()
            return
        begun.append(threading.Thread(target=lambda: (time.sleep(PAUSE), gate.end())))
        begun[-1].start()

    former = signal.signal(number, handler)
    finish: Any = None
    try:
        finish = senders(number)[sender]()
        outcome = repr(gate.wait())
    except Struck:
        gate.end()
        outcome = f"struck, then {gate.wait()!r}"
    if finish is not None:
        finish()
    for each in begun:
        each.join()
    signal.signal(number, former)
    return f"{number.name} by {sender}, {act}: {outcome}"


BLOCKED = signal.SIGRTMIN
"""A signal that all threads of a program block. A thread that did not block it would get it."""


def blocked(draw: random.Random) -> str:
    """Receive a blocked signal, or unblock it for its handler."""
    take = draw.choice((signal.sigwait, signal.sigwaitinfo, None))
    sender = draw.choice(("thread", "thread to main", "child", "kill")) if take else "kill"
    got: list[int] = []
    former = signal.signal(BLOCKED, lambda number, _: got.append(number))
    finish = senders(BLOCKED)[sender]()
    taken: Any = None
    if take is not None:
        taken = take([BLOCKED])
        taken = getattr(taken, "si_signo", taken)
    pending = [*signal.sigpending()]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [BLOCKED])
    signal.pthread_sigmask(signal.SIG_BLOCK, [BLOCKED])
    finish()
    signal.signal(BLOCKED, former)
    return f"blocked, by {sender}: taken {taken}, pending {pending}, handled {got}"


def forked(draw: random.Random) -> str:
    """Fork in main code, or in a thread."""
    where, end = draw.choice(("main", "thread")), draw.choice(("leave", "kill", "exit"))
    size, threads, beside = draw.choice((1, 70_000, 300_000)), draw.randint(0, 3), draw.randint(0, 2)
    others = [lock() for _ in range(beside)]
    waiting = [threading.Thread(target=each.wait) for each in others]
    for each in waiting:
        each.start()
    outcome = ""

    def fork() -> None:
        nonlocal outcome
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reader)
            run_child(writer, size, threads)
            if end == "exit" and where == "main":
                raise SystemExit(5)
            if end == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(4)
        os.close(writer)
        with os.fdopen(reader, "rb", 0) as file:
            came = len(file.readall())
        outcome = f"{came} came, {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}"

    if where == "main":
        fork()
    else:
        forking = threading.Thread(target=fork)
        forking.start()
        forking.join()
    for gate in others:
        gate.end()
    for each in waiting:
        each.join()
    return f"fork in {where}, {end}: {outcome}"


def run_child(writer: int, size: int, threads: int) -> None:
    """Run threads in a forked child, and write ``size`` bytes and one byte for each thread."""
    sums: list[int] = []
    adding = [threading.Thread(target=lambda: (time.sleep(0.001), sums.append(1))) for _ in range(threads)]
    for each in adding:
        each.start()
    for each in adding:
        each.join()
    os.write(writer, bytes(size + len(sums)))
    os.close(writer)


def threaded(draw: random.Random) -> str:
    """End a thread with an error, with SystemExit, or by returning."""
    end = draw.choice(("error", "exit", "chain"))
    gate = draw.choice(GATES)()

    def run() -> None:
        if end == "chain":
            threading.Thread(target=gate.end).start()
            return
        gate.end()
        raise ValueError(f"in a thread, {gate.wait()}") if end == "error" else SystemExit(9)

    started = threading.Thread(target=run)
    started.start()
    outcome = gate.wait() if end != "error" else None
    started.join()
    return f"a thread ends by {end}: {outcome!r} {started.is_alive()}"


def commanded(draw: random.Random) -> str:
    """Send data through a process."""
    size, way = draw.choice((1, 200_000)), draw.choice(("communicate", "unbuffered", "early"))
    if way == "communicate":
        done = subprocess.run(["cat"], input=bytes(size), stdout=subprocess.PIPE)
        return f"{way}: {len(done.stdout)} {done.returncode}"
    if way == "early":
        done = subprocess.run(["false"], stdout=subprocess.PIPE)
        return f"{way}: {done}"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        came: list[int] = []
        output: Any = process.stdout
        reading = threading.Thread(target=lambda: came.append(len(output.readall())))
        reading.start()
        told = process.stdin.write(bytes(size))
        process.stdin.close()
        reading.join()
    return f"{way}: {told} {came} {process.returncode}"


KINDS = signalled, signalled, signalled, blocked, forked, forked, threaded, commanded


# ---- the end


class Daemon:
    """A daemon thread that answers queries. The exit handler ``flush`` queries it."""

    def __init__(self) -> None:
        self.asked: queue.Queue[int] = queue.Queue()
        self.answers: queue.Queue[int] = queue.Queue()
        self.pid = os.getpid()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            while True:
                self.answers.put(2 * self.asked.get())
        finally:
            tell("the daemon was ended")

    def flush(self) -> None:
        if os.getpid() != self.pid:  # a forked child has the exit handlers, but not the thread
            return
        self.asked.put(21)
        tell("flushed", self.answers.get(), self.thread.is_alive())


def exit_handlers(daemon: Daemon) -> dict[str, Callable[[], Any]]:
    def again() -> None:
        atexit.register(tell, "registered by a handler")

    def fails() -> None:
        raise ValueError("in an exit handler")

    def is_signalled() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: tell("a signal at the exit"))
        signal.raise_signal(signal.SIGUSR1)

    def forks() -> None:
        pid = os.fork()
        if not pid:
            os._exit(6)
        tell("a child of a handler:", os.waitpid(pid, 0)[1] >> 8)

    def joins() -> None:
        daemon.thread.join(PAUSE)
        tell("the daemon lives:", daemon.thread.is_alive())

    return {
        "flush": daemon.flush,
        "again": again,
        "fails": fails,
        "is signalled": is_signalled,
        "forks": forks,
        "joins": joins,
    }


def left_behind(draw: random.Random) -> None:
    """Leave threads that end after main code."""
    kind = draw.choice(("nothing", "chain", "timer", "executor"))

    def last(before: threading.Thread, number: int) -> None:
        before.join()
        tell("thread", number, "ends, main code:", threading.main_thread().is_alive())

    if kind == "chain":
        before: threading.Thread = threading.main_thread()
        for number in range(draw.randint(1, 3)):
            before = threading.Thread(target=last, args=(before, number))
            before.start()
    elif kind == "timer":
        threading.Timer(PAUSE, last, (threading.main_thread(), 0)).start()
    elif kind == "executor":
        executor = concurrent.futures.ThreadPoolExecutor(1)
        began = threading.Event()
        threading._register_atexit(began.set)  # type: ignore[attr-defined]
        for number in range(draw.randint(1, 3)):
            executor.submit(lambda number=number: (began.wait(), tell("call", number)))


def end(draw: random.Random) -> None:
    """End the program."""
    how = draw.choice(("return", "status", "text", "error", "leave", "killed", "interrupted", "by a thread", "by TERM"))
    tell("main code ends:", how)
    never = lock()
    if how == "status":
        sys.exit(draw.randint(0, 9))
    if how == "text":
        sys.exit("a text")
    if how == "error":
        raise ValueError("of main code")
    if how == "leave":
        os._exit(7)
    if how == "by a thread":
        threading.Thread(target=lambda: (time.sleep(PAUSE), os._exit(8))).start()
        never.wait()
    if how in ("killed", "interrupted", "by TERM"):
        number = signal.SIGINT if how == "interrupted" else signal.SIGTERM
        action = signal.default_int_handler if how == "interrupted" else signal.SIG_DFL
        signal.signal(number, (lambda *_: sys.exit(2)) if how == "by TERM" else action)
        senders(number)[draw.choice(("kill", "thread", "child"))]()
        flag().wait()  # not a lock: a wait that nothing in the process could end is a Deadlock on dhagas


def program(seed: int) -> None:
    draw = random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, [BLOCKED])
    kept = Gate(int, int)
    daemon = Daemon()
    handlers = exit_handlers(daemon)
    for name in draw.choices([*handlers], k=draw.randint(0, 4)):
        atexit.register(handlers[name])
    if draw.random() < 0.5:
        weakref.finalize(kept, tell, "finalized")
    for _ in range(STEPS):
        tell(draw.choice(KINDS)(draw))
    left_behind(draw)
    end(draw)


# ---- the runner

TOLD = [0, 0]


def start(seed: int) -> tuple[int, int, int]:
    """Fork a child for a program. Returns: its PID and the fds of its lines and errors; zeros in the child."""
    TOLD[:] = os.pipe()
    errors = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(errors[1], 2)
        for fd in (TOLD[0], *errors):
            os.close(fd)
        return 0, 0, 0
    os.close(TOLD[1])
    os.close(errors[1])
    return pid, TOLD[0], errors[0]


def outcome_of(pid: int, *readers: int) -> list[Any]:
    """Wait for a program. Returns: its lines, its errors and its exit status."""
    texts = dict.fromkeys(readers, b"")
    deadline = time.monotonic() + PATIENCE
    left, hangs = set(readers), False
    while left:
        ready = select.select([*left], [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            hangs = True
            os.kill(pid, signal.SIGKILL)
            break
        for fd in ready:
            data = os.read(fd, 65_536)
            texts[fd] += data
            if not data:
                left.remove(fd)
    for fd in readers:
        os.close(fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    told, errors = (texts[fd].decode() for fd in readers)
    return [told.splitlines(), ERROR.findall(errors), "hangs" if hangs else status]


def main() -> None:
    first, count = map(int, sys.argv[1:3])
    outcomes = {}
    for seed in range(first, first + count):
        pid, *readers = start(seed)
        if not pid:
            program(seed)
            return
        outcomes[seed] = outcome_of(pid, *readers)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
