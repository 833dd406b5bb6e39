"""Main code waits while nothing else is alive, and a signal handler starts a thread that ends the wait.

``python tests/kit/handler_programs.py standard|ours`` uses Dhaga's modules, and sets the handler with the standard
``signal`` or with ``dhaga.signal``. Under ``python -m dhaga``, it is a program for threads. Each wait runs in its own
process, which is forked before any wait. The program prints the waits whose thread did not run to its end.
"""

from __future__ import annotations

import asyncio as standard_asyncio
import faulthandler
import fcntl
import importlib
import os
import signal as standard_signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

Ends = tuple[Callable[[], object], Callable[[], object]]
PATIENCE = 40
"""Number of seconds after which a wait counts as hung."""
DELAY = float(os.environ.get("DELAY", "0.1"))
PATCHED = sys.modules["threading"].Thread.__module__.startswith("dhaga") if "threading" in sys.modules else False


def face(name: str) -> Any:
    return importlib.import_module(name if PATCHED else f"dhaga.{name}")


asyncio, queue, select, selectors, signal, socket, subprocess, threading, time = map(
    face, ("asyncio", "queue", "select", "selectors", "signal", "socket", "subprocess", "threading", "time")
)
dos: Any = face("os")
if PATCHED:
    import concurrent.futures as futures
else:
    futures = face("futures")

import dhaga  # noqa: E402
from dhaga._iowait.child_wait import standard_waitpid  # noqa: E402
from dhaga._iowait.fd_ops import standard_read  # noqa: E402


def event(timeout: float | None) -> Ends:
    done = threading.Event()
    return lambda: done.wait(timeout), done.set


def condition() -> Ends:
    ready = threading.Condition()

    def notify() -> None:
        with ready:
            ready.notify()

    ready.acquire()
    return ready.wait, notify


def taken(lock: Any) -> Ends:
    lock.acquire()
    return lock.acquire, lock.release


def barrier() -> Ends:
    both = threading.Barrier(2)
    return both.wait, both.wait


def getter(kind: Any) -> Ends:
    items = kind()
    return items.get, lambda: items.put(1)


def full_queue(wait: str) -> Ends:
    items = queue.Queue(1)
    items.put(1)
    waits = {"put": lambda: items.put(2), "join": items.join}
    return waits[wait], lambda: (items.get(), items.task_done())


def future(wait: Callable[[Any], object]) -> Ends:
    answer: Any = futures.Future()
    return lambda: wait(answer), lambda: answer.set_result(1)


def readable(wait: Callable[[Any], object]) -> Ends:
    one, other = socket.socketpair()
    keep.append(one)
    return lambda: wait(one), lambda: other.send(b"x")


def polled(kind: Any) -> Ends:
    poll = kind()

    def wait(one: Any) -> None:
        poll.register(one, 1)
        poll.poll() if hasattr(poll, "poll") else poll.select()

    return readable(wait)


def accepts() -> Ends:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener.accept, lambda: keep.append(socket.create_connection(listener.getsockname()))


def sends() -> Ends:
    one, other = socket.socketpair()
    return lambda: one.sendall(bytes(2_000_000)), lambda: read_all(other)


def read_all(other: Any) -> None:
    left = 2_000_000
    while left:
        left -= len(other.recv(1 << 20))


def pipe(wait: Callable[[int], object]) -> Ends:
    reader, writer = os.pipe()
    return lambda: wait(reader), lambda: dos.write(writer, b"x")


def full_pipe() -> Ends:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return lambda: dos.write(writer, b"x"), lambda: dos.read(reader, 1 << 20)


def child(wait: Callable[[Any], object]) -> Ends:
    process = subprocess.Popen(["head", "-n", "1"], stdin=-1, stdout=-1)
    return lambda: wait(process), lambda: dos.write(process.stdin.fileno(), b"\n")


def locked_file() -> Ends:
    flock = fcntl.flock if PATCHED else importlib.import_module("dhaga._iowait.flock").flock
    holder = os.open("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp", os.O_RDONLY)
    path = f"/proc/self/fd/{holder}"
    first, second = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)
    flock(first, fcntl.LOCK_EX)
    return lambda: flock(second, fcntl.LOCK_EX), lambda: flock(first, fcntl.LOCK_UN)


def blocked_signal(wait: Callable[[set[int]], object]) -> Ends:
    numbers = {int(standard_signal.SIGUSR2)}
    standard_signal.pthread_sigmask(standard_signal.SIG_BLOCK, numbers)
    return lambda: wait(numbers), lambda: os.kill(os.getpid(), standard_signal.SIGUSR2)


def paused() -> Ends:
    signal.signal(standard_signal.SIGUSR2, lambda *_: None)
    return lambda: [signal.pause() for _ in range(2)], lambda: os.kill(os.getpid(), standard_signal.SIGUSR2)


def coroutine(module: Any) -> Ends:
    made: list[Any] = []

    async def main() -> None:
        if module.__name__ == "asyncio":
            arm()  # not before: without the patch, a thread of main code does not run beside a standard loop
        done = standard_asyncio.Event()
        made.extend([standard_asyncio.get_running_loop(), done])
        await done.wait()

    def end() -> None:
        while not made:
            time.sleep(0.01)
        made[0].call_soon_threadsafe(made[1].set)

    return lambda: module.run(main()), end


def offloaded() -> Ends:
    reader, writer = os.pipe()
    return lambda: dhaga.offload(standard_read, reader, 1), lambda: os.write(writer, b"x")


def semlock() -> Ends:
    from dhaga._sync.semlock import SemLock

    lock = SemLock(1, 0, 1, f"/dhaga-{os.getpid()}", True)
    return lock.acquire, lock.release


def parks() -> Ends:
    me = dhaga.current()
    return lambda: dhaga.park("its turn"), me.wake


def limited() -> Ends:
    limiter = dhaga.CapacityLimiter(0)
    return limiter.acquire, lambda: setattr(limiter, "total_tokens", 1)


keep: list[Any] = []

WAITS: dict[str, Callable[[], Ends]] = {
    "sleep": lambda: (lambda: time.sleep(0.6), int),
    "dhaga.sleep": lambda: (lambda: dhaga.sleep(0.6), int),
    "park": parks,
    "Event.wait": lambda: event(None),
    "Event.wait for long": lambda: event(1000),
    "Condition.wait": condition,
    "Lock.acquire": lambda: taken(threading.Lock()),
    "Semaphore.acquire": lambda: taken(threading.Semaphore()),
    "BoundedSemaphore.acquire": lambda: taken(threading.BoundedSemaphore()),
    "CapacityLimiter.acquire": limited,
    "SemLock.acquire": semlock,
    "Barrier.wait": barrier,
    "Queue.get": lambda: getter(queue.Queue),
    "LifoQueue.get": lambda: getter(queue.LifoQueue),
    "SimpleQueue.get": lambda: getter(queue.SimpleQueue),
    "Queue.put": lambda: full_queue("put"),
    "Queue.join": lambda: full_queue("join"),
    "Future.result": lambda: future(lambda answer: answer.result()),
    "Future.exception": lambda: future(lambda answer: answer.exception()),
    "wait": lambda: future(lambda answer: futures.wait([answer])),
    "as_completed": lambda: future(lambda answer: list(futures.as_completed([answer]))),
    "select": lambda: readable(lambda one: select.select([one], [], [])),
    "poll.poll": lambda: polled(select.poll),
    "epoll.poll": lambda: polled(select.epoll),
    "SelectSelector.select": lambda: polled(selectors.SelectSelector),
    "PollSelector.select": lambda: polled(selectors.PollSelector),
    "EpollSelector.select": lambda: polled(selectors.EpollSelector),
    "recv": lambda: readable(lambda one: one.recv(1)),
    "recv_into": lambda: readable(lambda one: one.recv_into(bytearray(1))),
    "recvfrom": lambda: readable(lambda one: one.recvfrom(1)),
    "makefile().read": lambda: readable(lambda one: one.makefile("rb").read(1)),
    "accept": accepts,
    "sendall": sends,
    "os.read": lambda: pipe(lambda reader: dos.read(reader, 1)),
    "os.readv": lambda: pipe(lambda reader: dos.readv(reader, [bytearray(1)])),
    "os.fdopen().read": lambda: pipe(lambda reader: dos.fdopen(reader, "rb", 0).read(1)),
    "os.write": full_pipe,
    "flock": locked_file,
    "Popen.wait": lambda: child(lambda process: process.wait()),
    "Popen.wait for long": lambda: child(lambda process: process.wait(1000)),
    "Popen.stdout.read": lambda: child(lambda process: process.stdout.read()),
    "os.waitpid": lambda: child(lambda process: dos.waitpid(process.pid, 0)),
    "os.wait": lambda: child(lambda process: dos.wait()),
    "os.waitid": lambda: child(lambda process: dos.waitid(os.P_PID, process.pid, os.WEXITED)),
    "pause": paused,
    "sigwait": lambda: blocked_signal(signal.sigwait),
    "sigwaitinfo": lambda: blocked_signal(signal.sigwaitinfo),
    "sigtimedwait": lambda: blocked_signal(lambda numbers: signal.sigtimedwait(numbers, 1000)),
    "asyncio.run": lambda: coroutine(standard_asyncio),
    "dhaga.asyncio.run": lambda: coroutine(asyncio),
    "offload": offloaded,
}


def arm() -> None:
    """Start the timer of the signal, which sometimes arrives before the wait has begun."""
    standard_signal.setitimer(standard_signal.ITIMER_REAL, DELAY)


def waits(name: str, set_handler: Callable[..., object]) -> bool:
    """Wait. Returns: whether the thread that ends the wait has run to its end."""
    wait, end = WAITS[name]()
    ended: list[bool] = []

    def tidies_up() -> None:
        time.sleep(0.02)
        end()
        ended.append(True)

    set_handler(standard_signal.SIGALRM, lambda *_: threading.Thread(target=tidies_up).start())
    if name != "asyncio.run":
        arm()
    wait()
    for _ in range(1000):
        if ended:
            return True
        time.sleep(0.02)
    return False


def run_all(names: list[str], set_handler: Callable[..., object], at_once: int = 8) -> list[str]:
    """Run each wait in its own process. Returns: the names of the failed waits."""
    failed, running = [], {}
    names = list(names)
    while names or running:
        while names and len(running) < at_once:
            name = names.pop(0)
            pid = os.fork()
            if not pid:
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                status = 3
                try:
                    status = not waits(name, set_handler)
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            running[pid] = name
        pid, status = standard_waitpid(-1, 0)
        if status:
            failed.append(running[pid])
        del running[pid]
    return sorted(failed)


if __name__ == "__main__":
    way, *chosen = sys.argv[1:]
    set_handler = standard_signal.signal if way == "standard" else signal.signal
    print(*run_all(chosen or list(WAITS), set_handler))
