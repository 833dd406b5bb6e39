"""no_park: what would park raises, what need not goes through."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dhaga
from dhaga import Cancelled, ParkError, no_park, queue, shield, threading
from dhaga._kernel import originals
from dhaga.testing import settle, virtual_clock


@pytest.mark.parametrize(
    "call",
    [
        lambda: dhaga.sleep(1),
        lambda: dhaga.sleep(0),
        lambda: queue.Queue[int]().get(),
        lambda: queue.Queue[int]().get(timeout=1),
        lambda: threading.Event().wait(),
        lambda: threading.Semaphore(0).acquire(),
        lambda: dhaga.spawn(dhaga.sleep, 1).join(),
        lambda: dhaga.park("nothing"),
        lambda: dhaga.offload(int),
        lambda: dhaga.current().scheduler.name and threading.Barrier(2).wait(),
    ],
)
def test_a_call_that_would_park_raises(call: Callable[[], object]) -> None:
    def work() -> None:
        with (
            no_park(),
            pytest.raises(ParkError, match=r"would have to park, within the no_park\(\) of .*test_no_park"),
        ):
            call()

    with virtual_clock():
        dhaga.spawn(work).result()
        work()  # main code
        dhaga.sleep(2)  # for those whom it has spawned


def test_a_call_that_need_not_wait_goes_through() -> None:
    with virtual_clock():
        items: queue.Queue[int] = queue.Queue()
        with no_park():
            items.put(1)
            with threading.Lock():
                assert items.get() == 1
            spawned = dhaga.spawn(int)
        spawned.join()


def test_after_its_block_everybody_parks_again() -> None:
    with virtual_clock() as clock:
        with no_park():
            pass
        dhaga.sleep(1)
        assert clock.now == 1


def test_it_holds_within_a_shield_and_in_blocks_of_its_own() -> None:
    with virtual_clock():
        with no_park():
            with no_park():
                pass
            with shield(), pytest.raises(ParkError):
                dhaga.sleep(1)


def park_twice(seen: list[str]) -> None:
    for _ in range(2):
        try:
            dhaga.sleep(1)
        except (Cancelled, ParkError) as error:
            seen.append(type(error).__name__)


def test_one_that_was_cancelled_before_its_start_never_enters_it() -> None:
    seen: list[str] = []

    def work() -> None:
        with no_park():
            park_twice(seen)

    with virtual_clock():
        victim = dhaga.spawn(work)
        victim.cancel()
        victim.join()
    assert seen == []


def test_a_cancel_within_it_is_raised_at_the_next_park() -> None:
    seen: list[str] = []

    def work() -> None:
        with no_park():
            me.cancel()
            park_twice(seen)

    with virtual_clock():
        me = dhaga.spawn(work)
        me.join()
    assert seen == ["Cancelled", "ParkError"]


def test_others_may_park_meanwhile() -> None:
    with virtual_clock():
        sleeper = dhaga.spawn(dhaga.sleep, 1)
        settle()
        with no_park():
            assert sleeper.state == "WAITING"
        sleeper.join()


def test_it_holds_in_a_plain_thread() -> None:
    seen: list[BaseException] = []

    def work() -> None:
        try:
            with no_park():
                queue.Queue[int]().get()
        except ParkError as error:
            seen.append(error)

    thread = originals.Thread(target=work)
    thread.start()
    thread.join()
    assert len(seen) == 1


def test_a_block_is_left_by_whom_it_was_entered_by_and_entered_once() -> None:
    with virtual_clock():
        block = no_park()
        with block, pytest.raises(RuntimeError, match="already entered"):
            block.__enter__()
        with pytest.raises(RuntimeError, match="was entered by another caller"):
            dhaga.spawn(no_park().__exit__, None, None, None).result()
