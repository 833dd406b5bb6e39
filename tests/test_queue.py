"""Queue, LifoQueue, PriorityQueue, SimpleQueue: each item once, to the first that waits, whatever is cancelled."""

from __future__ import annotations

import queue as standard
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import queue as ours
from dhaga._kernel import originals
from dhaga.queue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.parking import parked, victim


class OwnQueue(Queue[Any]):
    """A subclass with methods of its own, for which there are no shortcuts."""

    def _init(self, maxsize: int) -> None:
        self.queue = []

    def _put(self, item: Any) -> None:
        self.queue.insert(0, item)

    def _get(self) -> Any:
        return self.queue.pop()


every = pytest.mark.parametrize("kind", [Queue, LifoQueue, PriorityQueue, OwnQueue, SimpleQueue])


bounded = pytest.mark.parametrize("kind", [Queue, LifoQueue, PriorityQueue, OwnQueue])


def taken(queue: Any) -> list[Any]:
    found = []
    while not queue.empty():
        found.append(queue.get(block=False))
    return found


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (Queue, [3, 1, 2, 0]),
        (LifoQueue, [0, 2, 1, 3]),
        (PriorityQueue, [0, 1, 2, 3]),
        (OwnQueue, [3, 1, 2, 0]),
        (SimpleQueue, [3, 1, 2, 0]),
    ],
)
def test_each_kind_gives_its_items_in_its_own_order(kind: Any, order: list[int]) -> None:
    queue = kind()
    for item in (3, 1, 2, 0):
        queue.put(item)
    assert (queue.qsize(), queue.empty()) == (4, False)
    assert taken(queue) == order
    assert (queue.qsize(), queue.empty()) == (0, True)


@every
def test_getters_are_served_in_the_order_of_parking(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        queue = kind()

        def gets(n: int) -> None:
            trace.append((n, queue.get(), clock()))

        dhagas = [parked(gets, n) for n in range(3)]
        for item in "abc":
            dhaga.sleep(1)
            queue.put(item)
        for d in dhagas:
            d.join()
    assert trace == [(0, "a", 1), (1, "b", 2), (2, "c", 3)]


@every
def test_who_comes_after_the_put_cannot_take_the_item_away(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        first = parked(queue.get)
        queue.put("item")
        with pytest.raises(Empty):
            queue.get_nowait()
        assert first.result() == "item"


@every
def test_items_put_at_once_go_to_the_getters_by_their_order(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        dhagas = [parked(queue.get) for _ in range(3)]
        for item in range(4):
            queue.put(item)
        assert [d.result() for d in dhagas] == [0, 1, 2]
        assert taken(queue) == [3]


@bounded
def test_putters_are_served_in_the_order_of_parking_as_soon_as_there_is_room(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        queue = kind(1)
        queue.put(0)

        def puts(n: int) -> None:
            queue.put(n)
            trace.append((n, clock()))

        dhagas = [parked(puts, n) for n in (1, 2, 3)]
        for n in range(3):
            dhaga.sleep(1)
            assert queue.get() == n
            assert queue.full()  # the first putter's item came in at once: nobody can barge in
            with pytest.raises(Full):
                queue.put_nowait("late")
        for d in dhagas:
            d.join()
        assert taken(queue) == [3]
    assert trace == [(1, 1), (2, 2), (3, 3)]


@every
def test_a_get_ends_at_its_second_exactly(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        queue = kind()

        def gets(timeout: float) -> None:
            try:
                trace.append((timeout, queue.get(timeout=timeout), clock()))
            except Empty:
                trace.append((timeout, "Empty", clock()))

        dhagas = [parked(gets, timeout) for timeout in (5, 2.5, 12, 0)]
        dhaga.sleep(10)
        queue.put("item")
        for d in dhagas:
            d.join()
        assert queue.empty() and not queue._getters_.parked()
    assert trace == [(0, "Empty", 0), (2.5, "Empty", 2.5), (5, "Empty", 5), (12, "item", 10)]


@bounded
def test_a_put_ends_at_its_second_exactly_and_takes_its_item_away(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        queue = kind(1)
        queue.put(0)

        def puts(timeout: float) -> None:
            try:
                queue.put(timeout, timeout=timeout)
                trace.append((timeout, "done", clock()))
            except Full:
                trace.append((timeout, "Full", clock()))

        dhagas = [parked(puts, timeout) for timeout in (5, 2.5, 12, 0)]
        dhaga.sleep(10)
        assert queue.get() == 0
        for d in dhagas:
            d.join()
        assert taken(queue) == [12] and queue.unfinished_tasks == 2
    assert trace == [(0, "Full", 0), (2.5, "Full", 2.5), (5, "Full", 5), (12, "done", 10)]


@every
def test_a_cancelled_getter_takes_no_item(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        first, second = parked(queue.get), parked(queue.get)
        first.cancel()
        queue.put("item")
        assert second.result() == "item"
        with pytest.raises(dhaga.Cancelled):
            first.result()
        assert not queue._getters_.parked()


@every
def test_a_cancel_after_the_item_was_handed_over_stays_pending_and_loses_nothing(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock():
        queue = kind()

        def gets() -> None:
            trace.append(queue.get())
            try:
                dhaga.sleep(1)
            finally:
                trace.append("cancelled")

        d = parked(gets)
        queue.put("item")
        d.cancel()
        d.join()
        assert queue.empty()
    assert trace == ["item", "cancelled"]


@bounded
def test_a_cancelled_putter_puts_nothing_and_one_served_before_has_put(kind: Any) -> None:
    trace: list[str] = []
    with virtual_clock():
        queue = kind(1)
        queue.put(0)

        def puts(n: int) -> None:
            queue.put(n)
            trace.append(f"{n} put")
            dhaga.sleep(1)

        first, second, third = (parked(puts, n) for n in (1, 2, 3))
        first.cancel()
        settle()
        assert queue.get() == 0
        second.cancel()  # too late: its item is in
        second.join()
        assert queue.get() == 2
        third.join()
        assert taken(queue) == [3]
    assert trace == ["2 put", "3 put"]


@bounded
def test_join_waits_until_each_item_is_reported(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        queue = kind()
        queue.join()  # nothing to wait for

        def works() -> None:
            for _ in range(3):
                queue.get()
                dhaga.sleep(1)
                trace.append(("done", clock()))
                queue.task_done()

        for n in range(3):
            queue.put(n)
        joiners = [parked(lambda: (queue.join(), clock())) for _ in range(2)]
        worker = dhaga.spawn(works)
        assert [d.result() for d in joiners] == [(None, 3), (None, 3)]
        worker.join()
    assert trace == [("done", 1), ("done", 2), ("done", 3)]


@bounded
def test_a_task_is_done_once_only(kind: Any) -> None:
    queue = kind()
    with pytest.raises(ValueError, match="called too many times"):
        queue.task_done()
    queue.put(1)
    queue.get()
    queue.task_done()
    with pytest.raises(ValueError, match="called too many times"):
        queue.task_done()
    assert queue.unfinished_tasks == 0


@bounded
def test_no_item_is_lost_or_doubled_at_whatever_park_of_a_putter_it_is_cancelled(kind: Any) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        queue = kind(1)
        put: list[int] = []
        got: list[int] = []

        def puts(first: int, after: float) -> None:
            dhaga.sleep(after)
            for n in range(first, first + 3):
                try:
                    queue.put(n)
                except Full:
                    return
                put.append(n)

        def gets() -> None:
            dhaga.sleep(1)
            while True:
                try:
                    got.append(queue.get(timeout=5))
                except Empty:
                    return
                queue.task_done()
                dhaga.sleep(1)

        def check() -> None:
            assert sorted(got) == sorted(put) and set(put) >= {0, 1, 2}
            assert (
                queue.empty()
                and not queue._putters_.parked()
                and not queue._getters_.parked()
                and not queue.unfinished_tasks
            )

        dhaga.spawn(puts, 0, 0.1)
        dhaga.spawn(gets)
        return victim(puts, 10, 0.2), check

    assert cancel_at_every_park(scenario) >= 4  # more where a thread waits for the mutex


@every
def test_no_item_is_lost_or_doubled_at_whatever_park_of_a_getter_it_is_cancelled(kind: Any) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        queue = kind()
        got: list[int] = []

        def gets(after: float) -> None:
            dhaga.sleep(after)
            for _ in range(3):
                try:
                    got.append(queue.get())
                except Empty:
                    return
                dhaga.sleep(0.1)

        def puts() -> None:
            for n in range(6):
                dhaga.sleep(1)
                queue.put(n)

        def check() -> None:
            got.extend(taken(queue))
            assert sorted(got) == list(range(6)) and not queue._getters_.parked()

        dhaga.spawn(gets, 0.1)
        dhaga.spawn(puts)
        return victim(gets, 0.2), check

    assert cancel_at_every_park(scenario) == 7


@bounded
def test_nobody_is_forgotten_at_whatever_park_of_a_join_it_is_cancelled(kind: Any) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        queue = kind()
        joined: list[str] = []

        def joins(name: str) -> None:
            dhaga.sleep(0.5)
            for _ in range(2):
                queue.join()
                joined.append(name)
                dhaga.sleep(0.5)

        def works() -> None:
            for n in range(2):
                queue.put(n)
                dhaga.sleep(1)
                queue.get()
                queue.task_done()

        def check() -> None:
            assert joined.count("other") == 2 and not queue._joiners_.parked() and not queue.unfinished_tasks

        dhaga.spawn(works)
        dhaga.spawn(joins, "other")
        return victim(joins, "victim"), check

    assert cancel_at_every_park(scenario) >= 4


@every
def test_misuse_raises(kind: Any) -> None:
    queue = kind()
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        queue.get(timeout=-1)
    for get in (queue.get_nowait, lambda: queue.get(False), lambda: queue.get(False, -1)):
        with pytest.raises(Empty):
            get()
    if kind is SimpleQueue:
        queue.put(1, True, -1)  # ignored, as the standard says
        return
    queue = kind(1)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        queue.put(1, timeout=-1)
    queue.put(1)
    assert queue.full()
    for put in (queue.put_nowait, lambda n: queue.put(n, False), lambda n: queue.put(n, timeout=0)):
        with pytest.raises(Full):
            put(2)
    assert queue.qsize() == 1


@pytest.mark.parametrize("maxsize", [0, -1])
def test_a_queue_without_a_bound_is_never_full(maxsize: int) -> None:
    queue: Queue[int] = Queue(maxsize)
    for n in range(100):
        queue.put_nowait(n)
    assert not queue.full() and queue.qsize() == 100


def test_the_errors_are_the_standard_ones_and_the_names_those_of_the_standard() -> None:
    assert (Empty, Full) == (standard.Empty, standard.Full)
    assert ShutDown is getattr(standard, "ShutDown", ShutDown)
    assert set(standard.__all__) <= {*ours.__all__, "ShutDown"}
    assert repr(Queue[int]) == "dhaga.queue.Queue[int]" and repr(SimpleQueue[int]).endswith("SimpleQueue[int]")


@bounded
def test_an_error_of_a_subclasss_own_method_is_its_callers_and_loses_nobody(kind: Any) -> None:
    class Picky(kind):
        def _put(self, item: Any) -> None:
            if item == 13:
                raise LookupError(item)
            super()._put(item)

    def told(queue: Any) -> bool:
        with pytest.raises(LookupError):
            queue.put(13)
        return True

    with virtual_clock():
        queue = Picky(1)
        with pytest.raises(LookupError):
            queue.put(13)
        queue.put(1)
        bad = parked(told, queue)
        good = parked(queue.put, 2)
        assert queue.get() == 1
        assert bad.result() is True
        good.join()
        assert taken(queue) == [2] and queue.unfinished_tasks == 2


# ---- shutdown


@bounded
def test_after_a_shutdown_nothing_comes_in_and_what_is_there_can_be_taken(kind: Any) -> None:
    queue = kind()
    queue.put(1)
    queue.put(2)
    queue.shutdown()
    with pytest.raises(ShutDown):
        queue.put(3)
    with pytest.raises(ShutDown):
        queue.put_nowait(3)
    assert sorted((queue.get(), queue.get_nowait())) == [1, 2]
    for get in (queue.get, queue.get_nowait, lambda: queue.get(timeout=1)):
        with pytest.raises(ShutDown):
            get()
    queue.task_done()
    queue.task_done()
    queue.join()


@bounded
def test_a_shutdown_sends_parked_getters_and_putters_away(kind: Any) -> None:
    def told(call: Callable[..., object], *args: Any) -> bool:
        with pytest.raises(ShutDown):
            call(*args)
        return True

    with virtual_clock():
        empty, full = kind(), kind(1)
        full.put(0)
        dhagas = [parked(told, empty.get) for _ in range(2)] + [parked(told, full.put, n) for n in (1, 2)]
        empty.shutdown()
        full.shutdown()
        assert [d.result() for d in dhagas] == [True] * 4
        assert taken(full) == [0] and full.unfinished_tasks == 1


@bounded
def test_an_immediate_shutdown_drops_what_is_there_and_ends_joins(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        for n in range(3):
            queue.put(n)
        d = parked(queue.join)
        queue.shutdown(immediate=True)
        d.join()
        assert queue.empty() and queue.unfinished_tasks == 0
        with pytest.raises(ShutDown):
            queue.get()


@bounded
def test_an_immediate_shutdown_leaves_a_join_waiting_for_what_is_being_worked_off(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        queue.put(1)
        queue.put(2)
        queue.get()
        d = parked(queue.join)
        queue.shutdown(immediate=True)
        settle()
        assert not d.has_ended and queue.unfinished_tasks == 1
        queue.task_done()
        d.join()


# ---- items on their way


def in_sight(queue: Any) -> tuple[int, bool]:
    return queue.qsize(), queue.empty()


@every
def test_an_item_counts_until_its_getter_has_run(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        getters = [parked(queue.get) for _ in range(2)]
        seen = []
        for item in (None, 1, 2):
            queue.put(item)
            seen.append(in_sight(queue))
        assert seen == [(1, False), (2, False), (3, False)]
        assert [each.result() for each in getters] == [None, 1]
        assert in_sight(queue) == (1, False)
        assert taken(queue) == [2] and in_sight(queue) == (0, True)


@every
def test_each_item_is_in_sight_or_taken_at_each_step(kind: Any) -> None:
    def take() -> None:
        while queue.get() is not None:
            took.append(1)
            dhaga.sleep(0)  # a getter that has taken its item is runnable again

    with virtual_clock():
        queue, took = kind(), list[int]()
        getters = [parked(take) for _ in range(3)]
        for put in range(1, 20):
            queue.put(put)
            assert queue.qsize() + len(took) == put
            if put % 4 == 0:
                dhaga.sleep(0)
                assert queue.qsize() + len(took) == put
        settle()
        assert (in_sight(queue), len(took)) == ((0, True), 19)
        for _ in getters:
            queue.put(None)
        for each in getters:
            each.join()


@every
def test_a_getter_that_is_late_or_cancelled_has_no_item_on_its_way(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        late, cancelled, served = parked(queue.get, True, 1), parked(queue.get), parked(queue.get)
        queue.put(1)
        assert late.result() == 1
        late = parked(queue.get, True, 1)
        cancelled.cancel()
        assert in_sight(queue) == (0, True)
        queue.put(2)
        assert in_sight(queue) == (1, False) and served.result() == 2 and in_sight(queue) == (0, True)
        with pytest.raises(Empty):
            late.result()
        with pytest.raises(dhaga.Cancelled):
            cancelled.result()


@every
def test_who_finds_nothing_sees_no_item_afterwards(kind: Any) -> None:
    """Otherwise ``while not queue.empty():`` around a ``get_nowait`` would never end."""
    with virtual_clock():
        queue = kind()
        getter = parked(queue.get)
        queue.put(1)
        with pytest.raises(Empty):
            queue.get_nowait()
        assert in_sight(queue) == (0, True)
        assert getter.result() == 1


@bounded
def test_a_queue_never_counts_more_than_its_maxsize(kind: Any) -> None:
    with virtual_clock():
        queue = kind(1)
        getter = parked(queue.get)
        queue.put(1)
        assert (queue.qsize(), queue.full()) == (1, True)
        queue.put_nowait(2)
        assert (queue.qsize(), queue.full()) == (1, True)
        assert [getter.result(), *taken(queue)] == [1, 2]


@every
def test_an_item_counts_until_a_getter_in_an_os_thread_has_run(kind: Any) -> None:
    queue, items = kind(), []
    thread = originals.Thread(target=lambda: items.append(queue.get()))
    thread.start()
    while not queue._getters_:
        originals.thread_sleep(0.001)
    queue.put(1)
    while not items:
        found = queue.qsize()
        assert found == 1 or items or thread.is_alive()
    thread.join()
    assert in_sight(queue) == (0, True)


# ---- not_empty and not_full


class Batches(Queue[Any]):
    """A subclass with waits of its own, as programs have written them for the standard Queue."""

    def get_all(self, timeout: float | None = None) -> list[Any]:
        with self.not_empty:
            if not self.not_empty.wait_for(self._qsize, timeout):
                return []
            items = [self._get() for _ in range(self._qsize())]
            self.not_full.notify_all()
            return items

    def put_all(self, items: list[Any]) -> None:
        with self.not_full:
            for item in items:
                while self._qsize() >= self.maxsize:
                    self.not_full.wait()
                self._put(item)
                self.unfinished_tasks += 1
                self.not_empty.notify()


def test_a_subclass_waits_by_the_conditions_beside_getters_and_putters() -> None:
    with virtual_clock() as clock:
        queue = Batches(2)
        assert queue.get_all(timeout=1) == [] and clock() == 1
        getter, batch = parked(queue.get), parked(queue.get_all)
        queue.put(0)
        queue.put(1)
        queue.put(2)
        assert (getter.result(), batch.result()) == (0, [1, 2])
        putters = [parked(queue.put_all, [3, 4, 5, 6]), parked(queue.put, 7)]
        assert queue.get_all() == [3, 4]
        found = [queue.get() for _ in range(3)]
        for each in putters:
            each.join()
        assert sorted(found) == [5, 6, 7] and queue.unfinished_tasks == 8


@bounded
def test_a_program_that_empties_a_queue_notifies_its_putters(kind: Any) -> None:
    with virtual_clock():
        queue = kind(1)
        queue.put(0)
        putters = [parked(queue.put, 1), parked(queue.put, 2)]
        with queue.mutex:
            queue.queue.clear()
            queue.not_full.notify()
        putters[0].join()
        assert putters[1].is_alive() and queue.get() == 1
        putters[1].join()
        assert queue.get() == 2


@bounded
def test_a_condition_of_a_queue_must_be_held(kind: Any) -> None:
    queue = kind()
    for each in (queue.not_empty, queue.not_full):
        for call in (each.wait, each.notify, each.notify_all):
            with pytest.raises(RuntimeError, match="un-acquired lock"):
                call()
        with each:
            assert each.locked() and queue.mutex.locked() and not each.acquire(False)
            assert not each.wait(0) and not each.wait(-1)
        assert not queue.mutex.locked()


@bounded
def test_a_notify_wakes_a_watcher_that_waits_for_something_else(kind: Any) -> None:
    def watch() -> bool:
        with queue.not_empty:
            return bool(queue.not_empty.wait(9))

    with virtual_clock() as clock:
        queue = kind()
        watchers = [parked(watch) for _ in range(3)]
        with queue.not_empty:
            queue.not_empty.notify()
        assert watchers[0].result() and clock() == 0 and watchers[1].is_alive()
        queue.shutdown()
        assert watchers[1].result() and watchers[2].result() and clock() == 0


@bounded
def test_a_watcher_loses_nothing_at_any_park(kind: Any) -> None:
    def scenario() -> Any:
        def take() -> None:
            with queue.not_empty:
                if queue.not_empty.wait_for(queue._qsize, 5):
                    got.append(queue._get())
                    queue.not_full.notify()

        def check() -> None:
            got.extend(taken(queue))
            assert sorted(got) == [0, 1, 2] and not queue._watchers_ and not queue.mutex.locked()

        queue, got = kind(1), list[int]()
        ours, other = victim(take), dhaga.spawn(take)
        for n in range(3):
            dhaga.spawn(lambda n=n: (dhaga.sleep(n + 1), queue.put(n, timeout=20)))
        dhaga.spawn(lambda: (dhaga.sleep(9), got.append(queue.get())))
        assert other.is_alive()
        return ours, check

    assert cancel_at_every_park(scenario) >= 1


# ---- what recipes do with a queue


@bounded
def test_a_join_with_a_timeout_waits_for_all_tasks_done(kind: Any) -> None:
    def join(queue: Any, timeout: float) -> bool:
        end = clock() + timeout
        with queue.all_tasks_done:
            while queue.unfinished_tasks:
                if end - clock() <= 0:
                    return False
                queue.all_tasks_done.wait(end - clock())
        return True

    with virtual_clock() as clock:
        queue = kind()
        assert join(queue, 1) and queue.all_tasks_done.wait(0)
        queue.put(1)
        assert not queue.all_tasks_done.wait(0) and not queue.all_tasks_done.wait(-1) and clock() == 0
        assert not join(queue, 3) and clock() == 3
        d = parked(join, queue, 9)
        assert d.reason == "queue.join"
        dhaga.sleep(1)
        queue.task_done()
        assert d.result() is True and clock() == 4


@bounded
def test_a_queue_without_a_limit_ignores_the_timeout_of_a_put(kind: Any) -> None:
    queue = kind()
    queue.put(1, timeout=-1)
    assert queue.qsize() == 1
    with pytest.raises(ValueError, match="non-negative"):
        kind(1).put(1, timeout=-1)


@bounded
def test_who_empties_a_queue_by_hand_ends_the_joins(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        queue.put(1)
        joins = [parked(queue.join), parked(queue.all_tasks_done.wait)]
        with queue.mutex:
            queue.queue.clear()
            queue.unfinished_tasks = 0
            queue.all_tasks_done.notify_all()
        for d in joins:
            d.join()
        assert queue.empty()


# ---- repr


@bounded
def test_the_repr_tells_what_is_in_it_and_who_waits(kind: Any) -> None:
    name = kind.__name__
    with virtual_clock():
        queue = kind(1)
        d = parked(queue.get)
        assert repr(queue) == f"<{name} of 0, 1 parked in get, 0 in put>"
        queue.put(1)
        d.join()
        queue.put(2)
        d = parked(queue.put, 3)
        assert repr(queue) == f"<{name} of 1, 0 parked in get, 1 in put>"
        queue.get()
        d.join()
        queue.shutdown()
        assert repr(queue) == f"<{name} of 1, 0 parked in get, 0 in put, shut down>"


@pytest.mark.parametrize(
    ("kind", "others"), [(Queue, deque([5])), (LifoQueue, [5]), (PriorityQueue, [5]), (Queue, [5])]
)
def test_the_items_may_be_replaced(kind: Any, others: Any) -> None:
    queue = kind()
    queue.put(1)
    queue.queue = others
    assert (queue.qsize(), queue.queue) == (1, others) and queue.empty() is False
    if kind is Queue and type(others) is list:  # the deque's method does not fit: an error, as the standard's
        with pytest.raises(AttributeError):
            queue.get()
    else:
        queue.put(6)
        assert sorted(taken(queue)) == [5, 6] and not others
