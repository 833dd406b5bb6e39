"""Nothing grows: each public operation, many times in one long-lived dhaga, with objects that come and go.

Afterwards memory, file descriptors and every registry of the kernel are as they were after the first of these calls.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import sys
import threading as standard
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import futures, metrics, queue, select, socket, testing, threading
from dhaga._kernel import hooks
from dhaga._kernel.process.process_exit import ended_schedulers
from dhaga._kernel.run.attachment import schedulers
from dhaga._kernel.wait import deadlock
from dhaga._kernel.wait.current import this_thread
from dhaga._kernel.wait.thread_waiter import os_threads
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga._kernel.weak_sets import members
from dhaga._workers.dhaga_pool import worker_pools
from dhaga._workers.offload import pools
from dhaga._workers.switch_interval import switch_interval
from dhaga.aio import run_in_dhaga
from dhaga.pool import Pool

Operation = Callable[[], object]

SLACK = 200
"""Entries that may be left in each registry of VOIDABLE, where void entries are dropped by the hundred."""

VOIDABLE = {"timers", "thread-local references", "tickets in wait queues", "joiners"}

BLOCKS_PER_CALL = 0.1
"""Blocks of memory that may be left per call, beside a few thousand for caches: a leak leaves one at least."""

BLOCKS_PER_THREAD = 10
"""The same for a plain thread with dhagas, which leaves 8: ThreadEnd uses thread-locals after CPython's final clear."""

RARE_BLOCKS = 3000

MAX_SECONDS = 20
"""Seconds after which an operation is no longer repeated, on a busy machine."""


# ---- what may grow


def registries() -> dict[str, int]:
    """Return the sizes of all registries that the kernel and its neighbours keep across calls."""
    me: Any = dhaga.current()
    scheduler = me.scheduler
    gc.collect()
    objects = gc.get_objects()
    queues = [each for each in objects if isinstance(each, WaitQueue)]
    waited_for = [each for each in objects if isinstance(each, (dhaga.Dhaga, futures.Future))]
    return {
        "schedulers": len(schedulers),
        "Scheduler objects": sum(isinstance(each, dhaga.Scheduler) for each in objects),
        "ended schedulers": len(ended_schedulers),
        "guests of this thread": len(this_thread.guests),
        "OS threads": standard.active_count(),
        "OS threads known as waiters": len(members(os_threads)),
        "file descriptors": len(testing.open_fds()),
        "dhagas": len(scheduler.live),
        "Dhaga objects": len(waited_for),
        "runnable": scheduler.count_runnable(),
        "timers": len(scheduler.timers.heap),
        "watched fds": len(scheduler.poller.watchers),
        "fds to recheck": len(scheduler.poller.to_recheck),
        "thread-local references": len(me.thread_local_refs or ()),
        "pending errors": len(me.pending_errors),
        "calls in OS threads": scheduler.outside_calls,
        "calls for the switch interval": sum(switch_interval.running_calls),
        "wait queues": len(queues),
        "tickets in wait queues": sum(map(len, queues)),
        "joiners": sum(len(each._joiners) for each in waited_for),
        "offload pools": len(members(pools)),
        "worker pools": len(members(worker_pools)),
        "marks of the deadlock watch": len(deadlock.stuck) + len(deadlock.blocked) + len(deadlock.idle),
        "Threads": threading.active_count(),
        "hooks": sum(len(each) for each in vars(hooks).values() if isinstance(each, (list, dict))),
    }


def growth(operation: Operation, calls: int, blocks_per_call: float) -> dict[str, int]:
    """Return what grows over many calls, and by how much: registries, and the number of blocks of memory."""
    repeat(operation, max(calls // 10, SLACK))
    before, blocks = registries(), sys.getallocatedblocks()
    made = repeat(operation, calls)
    after = registries()
    left = sys.getallocatedblocks() - blocks - RARE_BLOCKS - int(made * blocks_per_call)
    grown = {name: after[name] - before[name] for name in after}
    found = {name: n for name, n in grown.items() if n > (SLACK if name in VOIDABLE else made // 10)}
    return found | ({"blocks of memory": left} if left > 0 else {})


def repeat(operation: Operation, calls: int) -> int:
    """Call an operation ``calls`` times, or for as long as a test may take. Returns: the number of calls."""
    deadline = time.monotonic() + MAX_SECONDS
    for made in range(calls):
        if made % 50 == 49 and time.monotonic() > deadline:
            return made
        operation()
    return calls


# ---- operations: each generator sets up the long-lived objects, yields the call, and cleans up

quick: list[Any] = []
slow: list[Any] = []


def swallowing(call: Operation, *errors: type[BaseException]) -> Operation:
    """Return a call that must raise one of ``errors``, and swallows it."""

    def swallows() -> None:
        with pytest.raises(errors):
            call()

    return swallows


@quick.append
def lock_that_is_held() -> Iterator[Operation]:
    lock = threading.Lock()
    with lock:
        yield lambda: lock.acquire(timeout=0.001)


@quick.append
def locks_that_come_and_go() -> Iterator[Operation]:
    def contend() -> None:
        lock = threading.RLock()
        with lock:
            other = dhaga.spawn(lock.acquire)
            dhaga.sleep(0)
        other.join()

    yield contend


@quick.append
def event_that_is_never_set() -> Iterator[Operation]:
    yield (event := threading.Event()) and (lambda: event.wait(0.001))


@quick.append
def event_whose_waiter_is_cancelled() -> Iterator[Operation]:
    event = threading.Event()

    def cancel() -> None:
        waits = dhaga.spawn(event.wait)
        dhaga.sleep(0)
        waits.cancel()
        waits.join()

    yield cancel


@quick.append
def condition_without_notify() -> Iterator[Operation]:
    condition = threading.Condition()

    def wait() -> None:
        with condition:
            condition.wait(0.001)

    yield wait


@quick.append
def semaphore_without_permits() -> Iterator[Operation]:
    yield (semaphore := threading.Semaphore(0)) and (lambda: semaphore.acquire(timeout=0.001))


@quick.append
def barrier_that_breaks() -> Iterator[Operation]:
    yield lambda: swallowing(lambda: threading.Barrier(2).wait(0.001), threading.BrokenBarrierError)()


@quick.append
def queue_that_is_empty() -> Iterator[Operation]:
    empty: queue.Queue[int] = queue.Queue()
    yield swallowing(lambda: empty.get(timeout=0.001), queue.Empty)


@quick.append
def queue_that_is_full() -> Iterator[Operation]:
    full: queue.Queue[int] = queue.Queue(1)
    full.put(1)
    yield swallowing(lambda: full.put(2, timeout=0.001), queue.Full)


@quick.append
def simple_queue_that_is_empty() -> Iterator[Operation]:
    empty: queue.SimpleQueue[int] = queue.SimpleQueue()
    yield swallowing(lambda: empty.get(timeout=0.001), queue.Empty)


@quick.append
def queue_joins_and_items() -> Iterator[Operation]:
    items: queue.Queue[int] = queue.Queue()

    def work() -> None:
        items.put(1)
        done = dhaga.spawn(items.join)
        items.get()
        items.task_done()
        done.join()

    yield work


@quick.append
def local_objects() -> Iterator[Operation]:
    yield lambda: setattr(threading.local(), "x", 1)


@quick.append
def local_object_of_many_dhagas() -> Iterator[Operation]:
    mine = threading.local()
    yield lambda: dhaga.spawn(setattr, mine, "x", 1).join()


@quick.append
def dhagas() -> Iterator[Operation]:
    yield lambda: dhaga.spawn(dhaga.sleep, 0.001).result()


@quick.append
def joins_of_one_that_lives() -> Iterator[Operation]:
    lives = dhaga.spawn(dhaga.park, "end")
    yield lambda: lives.join(0.001)
    lives.wake()


@quick.append
def results_of_one_that_lives() -> Iterator[Operation]:
    lives = dhaga.spawn(dhaga.park, "end")
    yield swallowing(lambda: lives.result(0.001), TimeoutError)
    lives.wake()


@quick.append
def results_of_one_that_has_failed() -> Iterator[Operation]:
    def fail() -> None:
        raise LookupError

    failed = dhaga.spawn(fail)
    with contextlib.suppress(LookupError):
        failed.result()
    yield swallowing(failed.result, LookupError)


@quick.append
def results_of_a_future_that_has_failed() -> Iterator[Operation]:
    failed: futures.Future[None] = futures.Future()
    failed.set_exception(LookupError())
    yield swallowing(failed.result, LookupError)


@quick.append
def results_of_a_future_that_never_ends() -> Iterator[Operation]:
    never: futures.Future[None] = futures.Future()
    yield swallowing(lambda: never.result(0.001), TimeoutError)


@quick.append
def waits_for_a_future_that_never_ends() -> Iterator[Operation]:
    never: futures.Future[None] = futures.Future()
    yield lambda: futures.wait([never], timeout=0.001)


@quick.append
def waits_for_several_that_live() -> Iterator[Operation]:
    lives, never, standard_future = dhaga.spawn(dhaga.park, "end"), futures.Future(), concurrent.futures.Future()
    all_of_them: list[Any] = [lives, never, standard_future]
    yield lambda: dhaga.wait(all_of_them, timeout=0.001)
    assert not standard_future._waiters and not lives.result_waiters
    lives.wake()


@quick.append
def waits_for_the_first_of_several() -> Iterator[Operation]:
    lives = dhaga.spawn(dhaga.park, "end")
    yield lambda: dhaga.wait([lives, dhaga.spawn(int)], return_when="FIRST_COMPLETED")
    lives.wake()


@quick.append
def completions_that_are_left_early() -> Iterator[Operation]:
    lives = dhaga.spawn(dhaga.park, "end")
    yield lambda: next(iter(dhaga.as_completed([lives, dhaga.spawn(int)])))
    lives.wake()


@quick.append
def errors_that_are_handed_over() -> Iterator[Operation]:
    def fail() -> None:
        raise LookupError

    def see() -> None:
        for failed in dhaga.as_completed([dhaga.spawn(fail)]):
            with contextlib.suppress(LookupError):
                failed.result()

    yield see


@quick.append
def calls_that_are_made_later() -> Iterator[Operation]:
    yield lambda: dhaga.spawn_later(0.001, int).result()


@quick.append
def calls_that_are_cancelled_before_their_time() -> Iterator[Operation]:
    yield lambda: dhaga.spawn_later(1000, int).cancel() and dhaga.sleep(0)


@quick.append
def tokens_that_are_not_there() -> Iterator[Operation]:
    yield (limiter := dhaga.CapacityLimiter(0)) and (lambda: limiter.acquire(timeout=0.001))


@quick.append
def tokens_that_are_borrowed_by_dhagas_that_come_and_go() -> Iterator[Operation]:
    limiter = dhaga.CapacityLimiter(1)
    yield lambda: dhaga.spawn(lambda: limiter.acquire() and limiter.release()).join()


@quick.append
def calls_at_a_rate() -> Iterator[Operation]:
    limiter = dhaga.RateLimiter(1000)
    yield lambda: limiter.acquire() and limiter.acquire(timeout=0)


@quick.append
def cancels_before_the_start() -> Iterator[Operation]:
    yield lambda: dhaga.spawn(int).cancel() and dhaga.sleep(0)


@quick.append
def threads() -> Iterator[Operation]:
    def start() -> None:
        thread = threading.Thread(target=threading.current_thread)
        thread.start()
        thread.join()

    yield start


@quick.append
def timers_that_are_cancelled() -> Iterator[Operation]:
    def start() -> None:
        timer = threading.Timer(1000, int)
        timer.start()
        timer.cancel()
        timer.join()

    yield start


@quick.append
def dummies_of_current_thread() -> Iterator[Operation]:
    yield lambda: dhaga.spawn(threading.current_thread).join()


@quick.append
def parks() -> Iterator[Operation]:
    def park() -> None:
        parked = dhaga.spawn(dhaga.park, "news", timeout=10)
        dhaga.sleep(0)
        parked.wake()
        parked.join()

    yield park


@quick.append
def timeouts() -> Iterator[Operation]:
    def expire() -> None:
        with contextlib.suppress(TimeoutError), dhaga.Timeout(1000), dhaga.Timeout(0.001):
            dhaga.sleep(1)

    yield expire


@quick.append
def scopes() -> Iterator[Operation]:
    def open_scope() -> None:
        with dhaga.move_on_after(0.001), dhaga.Scope() as scope:
            scope.spawn(dhaga.sleep, 1)
            with dhaga.shield():
                dhaga.sleep(0)

    yield open_scope


@quick.append
def races() -> Iterator[Operation]:
    yield lambda: dhaga.race(int, lambda: dhaga.sleep(1000))


@quick.append
def priorities() -> Iterator[Operation]:
    def run() -> None:
        with dhaga.priority(dhaga.LOW):
            dhaga.spawn(dhaga.sleep, priority=dhaga.HIGH).join()

    yield run


@quick.append
def awaits() -> Iterator[Operation]:
    yield lambda: dhaga.await_(asyncio.sleep(0))


@quick.append
def awaits_that_time_out() -> Iterator[Operation]:
    yield swallowing(lambda: dhaga.await_(asyncio.sleep(1000), timeout=0.001), TimeoutError)


@quick.append
def calls_from_coroutines() -> Iterator[Operation]:
    async def main() -> None:
        await run_in_dhaga(dhaga.sleep, 0)

    yield lambda: dhaga.await_(main())


@quick.append
def metrics_objects() -> Iterator[Operation]:
    yield lambda: metrics.RateMeter().add(1)


@quick.append
def executor_calls() -> Iterator[Operation]:
    with futures.Executor(dhagas=2) as executor:
        yield lambda: executor.submit(dhaga.sleep, 0).result()


@quick.append
def socket_without_data() -> Iterator[Operation]:
    one, other = socket.socketpair()
    one.settimeout(0.001)
    yield swallowing(lambda: one.recv(1), TimeoutError)
    one.close()
    other.close()


@slow.append
def sockets() -> Iterator[Operation]:
    def talk() -> None:
        one, other = socket.socketpair()
        reads = dhaga.spawn(one.recv, 1)
        dhaga.sleep(0)
        other.send(b"x")
        reads.join()
        one.close()
        other.close()

    yield talk


@slow.append
def selects() -> Iterator[Operation]:
    one, other = socket.socketpair()
    yield lambda: select.select([one], [], [], 0.001)
    one.close()
    other.close()


@slow.append
def offloaded_calls() -> Iterator[Operation]:
    yield lambda: dhaga.offload(int)


@slow.append
def files() -> Iterator[Operation]:
    def read() -> None:
        with dhaga.open(os.devnull) as file:
            file.read()

    yield read


@slow.append
def offload_pools() -> Iterator[Operation]:
    def use() -> None:
        with dhaga.OffloadPool("some", 1) as pool:
            pool.offload(int)

    yield use


@slow.append
def executors() -> Iterator[Operation]:
    def use() -> None:
        with futures.Executor(dhagas=2) as executor:
            executor.submit(dhaga.sleep, 0).result()

    yield use


@slow.append
def thread_pools() -> Iterator[Operation]:
    def use() -> None:
        with Pool(1, 2) as pool:
            pool.submit(int).result()

    yield use


@slow.append
def own_schedulers() -> Iterator[Operation]:
    def use() -> None:
        with dhaga.Scheduler() as scheduler:
            scheduler.spawn(dhaga.sleep).join()

    yield use


@slow.append
def socket_of_many_schedulers() -> Iterator[Operation]:
    shared = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    shared.bind(("127.0.0.1", 0))
    shared.settimeout(0.0001)
    read = swallowing(lambda: shared.recv(1), TimeoutError)

    def use() -> None:
        with dhaga.Scheduler() as scheduler:
            scheduler.spawn(read).join()

    yield use
    shared.close()


def in_thread(fn: Operation) -> None:
    """Call ``fn`` in a plain OS thread that ends with the call."""
    thread = standard.Thread(target=fn)
    thread.start()
    dhaga.offload(thread.join)


@slow.append
def plain_threads_that_wait() -> Iterator[Operation]:
    lock = threading.Lock()
    with lock:
        yield lambda: in_thread(lambda: lock.acquire(timeout=0.0001))


@slow.append
def plain_threads_with_dhagas() -> Iterator[Operation]:
    yield lambda: in_thread(lambda: dhaga.spawn(dhaga.sleep).join())


@slow.append
def event_loops() -> Iterator[Operation]:
    async def main() -> None:
        await dhaga.spawn(dhaga.sleep)

    yield lambda: in_thread(lambda: asyncio.run(main()))


# ---- the tests


@pytest.fixture(autouse=True, scope="module")
def only_new_objects() -> None:
    """Freeze the objects of earlier tests. After all other tests, collections of these took five sixths of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=[pytest.param(1, id="quick"), pytest.param(100, id="200000", marks=pytest.mark.slow)])
def times(request: pytest.FixtureRequest) -> int:
    """The factor by which an operation is called more often than in the quick form."""
    return int(request.param)


def assert_flat(operation: Callable[[], Iterator[Operation]], calls: int) -> None:
    generator = operation()
    allowed = BLOCKS_PER_THREAD if operation.__name__ == "plain_threads_with_dhagas" else BLOCKS_PER_CALL
    found = growth(next(generator), calls, allowed)
    for _ in generator:
        raise AssertionError("an operation yields once")
    assert not found, f"grew over {calls} calls: {found}"


@pytest.mark.parametrize("operation", quick, ids=lambda each: each.__name__)
def test_nothing_grows_on_a_virtual_clock(operation: Any, times: int) -> None:
    with testing.virtual_clock():
        dhaga.spawn(assert_flat, operation, 2000 * times).result()


@pytest.mark.parametrize("operation", slow, ids=lambda each: each.__name__)
def test_nothing_grows_of_what_takes_real_time(operation: Any, times: int) -> None:
    """Operations with fds or threads: they are called less often, and each leak leaves more."""
    dhaga.offload(int)
    dhaga.spawn(assert_flat, operation, 100 * min(times, 50)).result()


def test_nothing_grows_where_two_loops_run_in_turn(times: int) -> None:
    loops = [asyncio.new_event_loop() for _ in range(2)]

    async def main() -> None:
        await dhaga.spawn(dhaga.sleep)

    before = None
    for n in range(100 * min(times, 50)):
        loops[n % 2].run_until_complete(main())
        if n == 10:
            before = len(schedulers), testing.open_fds()
    assert (len(schedulers), testing.open_fds()) == before
    for loop in loops:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
