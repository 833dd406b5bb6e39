"""A bad number of seconds is refused at the call: before a waiter is queued anywhere, and before a timer is set.

NaN compares false with everything. In the heap of a scheduler's deadlines it would come to the front and stay there: no
other timer of that scheduler would ever fire again. The table has a row for each public call whose signature has a time
among its parameters; calls that are not made here are listed with the reason.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import inspect
import math
import pkgutil
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import dhaga
import dhaga.debug
from dhaga import aio, futures, pool, servers, stream, testing
from dhaga._sync.semlock import SemLock
from dhaga._workers.offload import OffloadPool
from dhaga.http.limits import Limits
from dhaga.testing import virtual_clock

TIME = re.compile(r"timeout|seconds|delay|interval|deadline|grace|threshold")
NAN, TOO_LARGE = math.nan, 1e300
V, O = ValueError, OverflowError  # noqa: E741
BAD = {
    "ours": {NAN: V},
    "from 0 on": {NAN: V, -1.0: V},
    "above 0": {NAN: V, -1.0: V, 0.0: V},
    "wait": {NAN: V, TOO_LARGE: O, math.inf: O},
    "lock": {NAN: V, -2.0: V, TOO_LARGE: O, math.inf: O},
    "standard": {NAN: V, -1.0: V, TOO_LARGE: O, math.inf: O},
    "poll": {NAN: V, TOO_LARGE: O},
}
"""Bad values and their errors, by kind of the call. Other values must have the outcome of the standard call, if any."""


class Faces:
    """The modules that a row of the table uses: ours, or the standard ones."""

    def __init__(self, ours: bool) -> None:
        for name in ("queue", "select", "signal", "socket", "subprocess", "threading", "time", "thread", "selectors"):
            standard = "_thread" if name == "thread" else name
            setattr(self, name, importlib.import_module(f"dhaga.{name}" if ours else standard))
        self.futures: Any = futures if ours else concurrent.futures
        self.opened = contextlib.ExitStack()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def held(self, lock: Any) -> Any:
        lock.acquire()
        return lock

    def entered(self, condition: Any) -> Any:
        condition.acquire()
        return condition

    def full(self, queue: Any) -> Any:
        queue.put(1)
        return queue

    def living_thread(self) -> Any:
        end = self.threading.Event()
        thread = self.threading.Thread(target=end.wait)
        thread.start()
        self.opened.callback(lambda: (end.set(), thread.join()))
        return thread

    def living_handle(self) -> Any:
        start = getattr(self.thread, "start_joinable_thread", None)
        if start is None:  # the standard one before 3.13
            return self.living_thread()
        end = self.threading.Event()
        handle = start(end.wait)
        self.opened.callback(lambda: (end.set(), handle.join()))
        return handle

    def pair(self) -> Any:
        ours, theirs = self.socket.socketpair()
        self.opened.enter_context(ours)
        self.opened.enter_context(theirs)
        return ours

    def polling(self, poller: Any) -> Any:
        poller.register(self.pair().fileno(), 1)
        if hasattr(poller, "close"):
            self.opened.callback(poller.close)
        return poller

    def selecting(self, selector: Any) -> Any:
        selector.register(self.pair(), 1)
        self.opened.callback(selector.close)
        return selector

    def process(self) -> Any:
        process = self.subprocess.Popen([sys.executable, "-c", "input()"], stdin=self.subprocess.PIPE)
        self.opened.callback(lambda: (process.stdin.close(), process.wait()))
        return process

    # ---- what only we have

    def parked(self) -> Any:
        d = dhaga.spawn(dhaga.park, "x")
        self.opened.callback(lambda: d.cancel() and d.join())
        testing.settle()
        return d

    def worker_pool(self) -> Any:
        return self.opened.enter_context(pool.Pool(threads=1, dhagas=1))

    def offload_pool(self) -> Any:
        return self.opened.enter_context(OffloadPool("bad", 1))

    def scheduler(self) -> Any:
        return self.opened.enter_context(dhaga.Scheduler())

    def server(self) -> Any:
        return self.opened.enter_context(servers.TCPServer(lambda sock, peer: None, ("127.0.0.1", 0)))

    def stream(self) -> Any:
        listener = socket.create_server(("127.0.0.1", 0))
        with listener:
            made = stream.connect(listener.getsockname())
            self.opened.callback(made.close)
        return made


class Asynchronous:
    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *args: object) -> None: ...

    def __aiter__(self) -> Any: ...


Call = Callable[[Any], object]


def by_name(call: Callable[..., object], *args: object) -> Call:
    return lambda value: call(*args, timeout=value)


TABLE: dict[str, tuple[str, Callable[[Any], Call]]] = {
    # for each call and its parameter: the kind, and a function that makes the call, which gets the value
    "sleep(seconds)": ("from 0 on", lambda on: dhaga.sleep),
    "park(timeout)": ("ours", lambda on: lambda t: dhaga.park("x", timeout=t)),
    "spawn_later(seconds)": ("from 0 on", lambda on: lambda t: dhaga.spawn_later(t, int)),
    "Timeout(seconds)": ("from 0 on", lambda on: lambda t: dhaga.Timeout(t).__enter__()),
    "Scope(timeout)": ("from 0 on", lambda on: lambda t: dhaga.Scope(t).__enter__()),
    "fail_after(seconds)": ("from 0 on", lambda on: dhaga.fail_after),
    "move_on_after(seconds)": ("from 0 on", lambda on: dhaga.move_on_after),
    "race(timeout)": ("from 0 on", lambda on: lambda t: dhaga.race(int, timeout=t)),
    "Dhaga.join(timeout)": ("ours", lambda on: on.parked().join),
    "Dhaga.result(timeout)": ("ours", lambda on: on.parked().result),
    "Scheduler.stop(timeout)": ("ours", lambda on: on.scheduler().stop),
    "OffloadPool.shutdown(timeout)": ("ours", lambda on: by_name(on.offload_pool().shutdown)),
    "Pool.shutdown(timeout)": ("ours", lambda on: by_name(on.worker_pool().shutdown)),
    "Pool.map(timeout)": ("ours", lambda on: by_name(on.worker_pool().map, int, [1])),
    "Pool.imap_unordered(timeout)": (
        "ours",
        lambda on: by_name(on.worker_pool().imap_unordered, int, [1]),
    ),
    "Executor.map(timeout)": ("ours", lambda on: lambda t: futures.Executor().map(int, [1], timeout=t)),
    "await_(timeout)": ("ours", lambda on: lambda t: dhaga.await_(asyncio.sleep(1), t)),
    "enter(timeout)": ("ours", lambda on: lambda t: aio.enter(Asynchronous(), t)),
    "aiter_(timeout)": ("ours", lambda on: lambda t: aio.aiter_(Asynchronous(), t)),
    "TCPServer(handshake_timeout)": (
        "ours",
        lambda on: lambda t: servers.TCPServer(print, ("127.0.0.1", 0), handshake_timeout=t),
    ),
    "TCPServer.stop(timeout)": ("ours", lambda on: on.server().stop),
    "TCPServer.serve_forever(grace)": ("ours", lambda on: on.server().serve_forever),
    "connect(timeout)": ("ours", lambda on: lambda t: stream.connect(("127.0.0.1", 1), timeout=t)),
    "Stream.read_bytes(timeout)": ("ours", lambda on: by_name(on.stream().read_bytes, 1)),
    "Stream.read_into(timeout)": ("ours", lambda on: by_name(on.stream().read_into, bytearray(1))),
    "Stream.read_until(timeout)": ("ours", lambda on: by_name(on.stream().read_until, b"x")),
    "Stream.read_until_regex(timeout)": (
        "ours",
        lambda on: by_name(on.stream().read_until_regex, b"x"),
    ),
    "Stream.read_until_close(timeout)": ("ours", lambda on: on.stream().read_until_close),
    "Stream.write(timeout)": ("ours", lambda on: by_name(on.stream().write, b"x")),
    "Stream.start_tls(timeout)": ("ours", lambda on: by_name(on.stream().start_tls, False)),
    "SemLock.acquire(timeout)": ("ours", lambda on: lambda t: SemLock(1, 0, 1, "/dhaga-bad", True).acquire(True, t)),
    "Limits(idle_timeout)": ("above 0", lambda on: lambda t: Limits(idle_timeout=t)),
    "Limits(header_timeout)": ("above 0", lambda on: lambda t: Limits(header_timeout=t)),
    "Limits(body_timeout)": ("above 0", lambda on: lambda t: Limits(body_timeout=t)),
    "Limits(write_timeout)": ("above 0", lambda on: lambda t: Limits(write_timeout=t)),
    "Limits(queue_timeout)": ("above 0", lambda on: lambda t: Limits(queue_timeout=t)),
    "watch(threshold)": ("above 0", lambda on: lambda t: dhaga.debug.watch(t).stop()),
    # the faces of standard modules
    "time.sleep(seconds)": ("standard", lambda on: on.time.sleep),
    "Lock.acquire(timeout)": ("lock", lambda on: partial(on.held(on.threading.Lock()).acquire, True)),
    "RLock.acquire(timeout)": ("lock", lambda on: lambda t: on.threading.RLock().acquire(True, t)),
    "Event.wait(timeout)": ("wait", lambda on: on.threading.Event().wait),
    "Condition.wait(timeout)": ("wait", lambda on: on.entered(on.threading.Condition()).wait),
    "Condition.wait_for(timeout)": (
        "wait",
        lambda on: partial(on.entered(on.threading.Condition()).wait_for, bool),
    ),
    "Semaphore.acquire(timeout)": ("wait", lambda on: lambda t: on.threading.Semaphore(0).acquire(timeout=t)),
    "CapacityLimiter.acquire(timeout)": ("wait", lambda on: lambda t: dhaga.CapacityLimiter(0).acquire(timeout=t)),
    "RateLimiter.acquire(timeout)": ("ours", lambda on: lambda t: dhaga.RateLimiter(1).acquire(timeout=t)),
    "Barrier.wait(timeout)": ("wait", lambda on: lambda t: on.threading.Barrier(2).wait(t)),
    "Barrier(timeout)": ("ours", lambda on: lambda t: on.threading.Barrier(2, timeout=t)),
    "Thread.join(timeout)": ("wait", lambda on: on.living_thread().join),
    "_ThreadHandle.join(timeout)": (
        "wait",
        lambda on: on.living_handle().join,
    ),
    "Queue.get(timeout)": ("standard", lambda on: lambda t: on.queue.Queue().get(timeout=t)),
    "Queue.put(timeout)": ("standard", lambda on: by_name(on.full(on.queue.Queue(1)).put, 1)),
    "AllTasksDone.wait(timeout)": (
        "wait",
        lambda on: on.entered(on.full(on.queue.Queue()).all_tasks_done).wait,
    ),
    "SimpleQueue.get(timeout)": ("standard", lambda on: lambda t: on.queue.SimpleQueue().get(timeout=t)),
    "Future.result(timeout)": ("wait", lambda on: on.futures.Future().result),
    "Future.exception(timeout)": ("wait", lambda on: on.futures.Future().exception),
    "wait(timeout)": ("ours", lambda on: lambda t: on.futures.wait([on.futures.Future()], t)),
    "as_completed(timeout)": ("ours", lambda on: lambda t: on.futures.as_completed([on.futures.Future()], t)),
    "select(timeout)": ("standard", lambda on: partial(on.select.select, [on.pair()], [], [])),
    "poll.poll(timeout)": ("poll", lambda on: on.polling(on.select.poll()).poll),
    "epoll.poll(timeout)": ("poll", lambda on: on.polling(on.select.epoll()).poll),
    "SelectSelector.select(timeout)": ("poll", lambda on: on.selecting(on.selectors.SelectSelector()).select),
    "PollSelector.select(timeout)": ("poll", lambda on: on.selecting(on.selectors.PollSelector()).select),
    "EpollSelector.select(timeout)": ("poll", lambda on: on.selecting(on.selectors.EpollSelector()).select),
    "socket.settimeout(value)": ("standard", lambda on: on.pair().settimeout),
    "create_connection(timeout)": (
        "standard",
        lambda on: lambda t: on.socket.create_connection(("127.0.0.1", 1), timeout=t),
    ),
    "sigtimedwait(timeout)": ("standard", lambda on: lambda t: on.signal.sigtimedwait([signal.SIGUSR2], t)),
    "Popen.wait(timeout)": ("ours", lambda on: on.process().wait),
}

LEFT_OUT = {
    "SimpleQueue.put(timeout)": "is ignored, as by the standard",
    "Timer(interval)": "the wait is in the thread, and so is its ValueError, as with the standard",
    "TCPServer.wait_for_end(timeout)": "stop() has checked it",
    "Scheduler.wait_for_end(timeout)": "stop() has checked it",
    "ForeignThread.join(timeout)": "always raises",
    "Watchdog(threshold)": "watch() makes it, and has checked",
    "Stream.read(timeout)": "the other reads make it",
    "call_within(timeout)": "a Timeout, if any",
    "time_left(timeout)": "not public",
    "get_server_certificate(timeout)": "create_connection() gets it",
    "_PollLikeSelector.select(timeout)": "that of PollSelector and EpollSelector",
    "Popen.communicate(timeout)": "select() refuses it",
    "call(timeout)": "Popen.wait() refuses it",
    "run(timeout)": "Popen.communicate() refuses it",
    "check_output(timeout)": "run() gets it",
    "seconds_of(timeout)": "not public: select() and poll() are above",
    "TimeoutSocket.park_within_timeout(deadline)": "not public",
    "TLSWaits.retry_when_ready(deadline)": "not public",
    "TLSWaits.wait(deadline)": "not public",
    "SSLSocket.write_now(deadline)": "not public",
    "HTTPClient.fetch(timeout)": "a Timeout, if any",
    "Limits(request_timeout)": "Limits refuses what is not above 0: test_limits",
    "ServerConnection.receive(timeout)": "a field of Limits",
    "ServerConnection.send_pieces(seconds)": "a field of Limits",
    "SessionRedirectMixin.resolve_redirects(timeout)": "of requests, which checks by itself",
    "Session.request(timeout)": "of requests, which checks by itself",
    "in_dhaga(timeout)": "a mark of pytest, which timeout_of() checks",
    "call_in_dhaga(timeout)": "a mark of pytest, which timeout_of() checks",
    "result_of(timeout)": "a mark of pytest, which timeout_of() checks",
    "fail_late(timeout)": "a mark of pytest, which timeout_of() checks",
    "JumpingSelector.select(timeout)": "the loop calls it",
    "VirtualClock.jump(seconds)": "the loop's selector calls it",
    "Blocked(seconds)": "a result",
    "DhagaView(seconds)": "a result",
    "SchedulerStats(seconds)": "a result",
    "SchedulerView(cpu_seconds)": "a result",
    "SchedulerStats(delays)": "a result",
    "SchedulerStats(delay_seconds)": "a result",
    "raise_invalid(seconds)": "not public",
    "Waiter.park_until_woken(timeout)": "of the internal API: its callers have checked",
    "Dhaga.park_within(timeout)": "of the internal API: its callers have checked",
    "Waiter.park_within(timeout)": "of the internal API: its callers have checked",
    "SchedulerState.expire_after(seconds)": "of the internal API: its callers have checked",
    "Dhaga.wait_for_end(timeout)": "join() and result() refuse it",
    "Simulation(max_seconds)": "tests/simulation/test_world.py: it is made in main code only",
    "Settings(max_seconds)": "a field: the Simulation made of it refuses it",
    "search(real_seconds)": "tests/simulation/test_search.py: it is called in main code only",
    "shrink(real_seconds)": "as search()",
    "Network.stall(seconds)": "tests/simulation/network/test_network.py: a simulation has it",
    "Host.pause(seconds)": "tests/simulation/network/test_pauses.py: a simulation has it",
    "Host.slow_down(delay)": "as Host.pause()",
    "Host.slow_down(seconds)": "as Host.pause()",
    "Disk.fill(seconds)": "tests/simulation/disk/test_disk.py: a host of a simulation has it",
    "Disk.fail(seconds)": "as Disk.fill()",
    "Disk.slow_down(seconds)": "as Disk.fill()",
    "Disk.end_after(seconds)": "of the internal API: its callers have checked",
    "Disks.pause(seconds)": "of the internal API: its callers have checked",
    "Findings(seconds)": "a result",
    "Outcome(seconds)": "a result",
}


# ---- the table is complete


def public_modules() -> Iterator[Any]:
    yield dhaga
    for found in pkgutil.walk_packages(dhaga.__path__, "dhaga."):
        # The compat packages do with a bad value what gevent and eventlet do.
        if not re.search(r"\._|\.compat|\.integrations|__main__", found.name):
            yield importlib.import_module(found.name)


def public_calls(module: Any) -> Iterator[Any]:
    own = re.compile(rf"{re.escape(module.__name__)}(\._.*)?$")
    names = getattr(module, "__all__", None) or [
        name for name, thing in vars(module).items() if own.match(getattr(thing, "__module__", None) or "")
    ]
    for name in names:
        thing = getattr(module, name)
        if name[0] == "_" or not callable(thing):
            continue
        yield thing
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            yield from (
                getattr(thing, each) for each in dir(thing) if each[0] != "_" and callable(getattr(thing, each))
            )


def times_of(call: Any) -> Iterator[str]:
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):  # built in
        return
    if not (getattr(call, "__module__", None) or "").startswith(("_asyncio", "asyncio")):
        yield from (f"{call.__qualname__}({name})" for name in parameters if TIME.search(name))


def test_each_public_call_with_a_time_is_in_the_table_or_left_out_with_a_reason() -> None:
    found = {each for module in public_modules() for call in public_calls(module) for each in times_of(call)}
    assert found - set(TABLE) - set(LEFT_OUT) == set()


# ---- what each does


@contextlib.contextmanager
def faces(ours: bool) -> Iterator[Faces]:
    with contextlib.ExitStack() as stack:
        on = Faces(ours)
        stack.enter_context(on.opened)
        yield on


def outcome(call: Call, value: Any) -> Any:
    try:
        call(value)
    except Exception as error:
        return type(error)
    return None


def refuses(name: str) -> None:
    """Make a call with each bad value; it must raise, and neither park its caller nor leave a timer."""
    kind, make = TABLE[name]
    with faces(True) as on:
        call = make(on)
        me = dhaga.current()
        timers = me.scheduler.timers
        for value, error in {**BAD[kind], "1": TypeError}.items():
            parked, due = me.parked, len(timers.heap)
            with pytest.raises(error), dhaga.no_park():  # a call that takes the value would park for ever
                call(value)
            assert me.parked is parked and not parked, f"{name} has parked"
            assert len(timers.heap) == due, f"{name} has left a timer"


@pytest.mark.parametrize("caller", ["dhaga", "main code"])
@pytest.mark.parametrize("name", TABLE)
def test_a_bad_value_is_refused_before_anything_is_queued(name: str, caller: str) -> None:
    with virtual_clock():
        if caller == "dhaga":
            dhaga.spawn(refuses, name).result()
        else:
            refuses(name)


FOREVER = {"poll.poll(timeout)": (-1, -2), "epoll.poll(timeout)": (-1, -2)} | dict.fromkeys(
    ("Lock.acquire(timeout)", "RLock.acquire(timeout)"), (-1,)
)
"""Values with which a call waits for ever."""
OURS_ALONE = (
    {"CapacityLimiter.acquire(timeout)"}
    | {name for name, (kind, _) in TABLE.items() if kind in ("ours", "from 0 on", "above 0")}
    | {
        "_ThreadHandle.join(timeout)",
        "create_connection(timeout)",  # refused by the connection in both
    }
)
if sys.version_info < (3, 13):
    OURS_ALONE.add("Thread.join(timeout)")  # the standard join regards the thread as ended after an error


@pytest.mark.parametrize("name", [name for name in TABLE if name not in OURS_ALONE])
def test_each_value_has_the_outcome_that_the_standard_has(name: str) -> None:
    """NaN is left out: some standard waits take it for 0, others spin on it for ever."""
    _, make = TABLE[name]
    with virtual_clock():
        with faces(False) as on, faces(True) as in_ours:
            standard, ours = make(on), make(in_ours)
            for value in (TOO_LARGE, math.inf, -1.0, -2.0, 0.0, "1"):
                if value in FOREVER.get(name, ()):
                    continue
                assert outcome(ours, value) == outcome(standard, value), value
