"""The dump: who waits for what, since when, who holds it, and who waits in circles."""

from __future__ import annotations

from typing import Any

import dhaga
from dhaga import Scope, debug, threading
from dhaga.debug._dump import duration
from dhaga.debug._remote.queries import QueryHandlers
from dhaga.testing import settle, virtual_clock
from tests.kit.scripts import prints


def lock_in_turn(first: threading.Lock, second: threading.Lock) -> None:
    with first:
        dhaga.sleep(1)
        with second:
            pass


def test_a_dump_tells_reason_thing_holder_and_time() -> None:
    with virtual_clock():
        lock = threading.Lock()
        with lock:
            waiter = dhaga.spawn(lock.acquire, name="patient")
            dhaga.sleep(2)
            view = debug.snapshot().find("patient")
        waiter.join()
        assert (view.state, view.reason, view.held_by) == ("WAITING", "lock.acquire", ("main code",))
        assert view.waits_on == "<Lock held by main code, 1 parked>"
        assert view.seconds == 2
        lock.release()


def test_a_stack_shows_the_code_and_not_the_kernel() -> None:
    def outer() -> None:
        inner()

    def inner() -> None:
        dhaga.sleep(5)

    with virtual_clock():
        sleeper = dhaga.spawn(outer, name="sleeper")
        settle()
        stack = debug.snapshot().find("sleeper").stack
        sleeper.cancel()
        sleeper.join()
    assert [frame.function for frame in stack] == ["outer", "inner"]
    assert stack[-1].source == "dhaga.sleep(5)"


def test_who_asks_is_shown_where_he_asks() -> None:
    with virtual_clock():
        view = debug.snapshot().find("main code")
    assert view.state == "RUNNING"
    assert view.stack[-1].function == "test_who_asks_is_shown_where_he_asks"


def test_a_circle_of_locks_is_named() -> None:
    with virtual_clock():
        one, other = threading.Lock(), threading.Lock()
        dhagas: list[dhaga.Dhaga[Any]] = [
            dhaga.spawn(lock_in_turn, one, other, name="left"),
            dhaga.spawn(lock_in_turn, other, one, name="right"),
            dhaga.spawn(one.acquire, name="bystander"),
        ]
        dhaga.sleep(2)
        snapshot = debug.snapshot()
        text = debug.dump()
        for each in dhagas:
            each.cancel()
            each.join()
    assert snapshot.cycles == (("left", "right"),)
    assert "deadlock: left waits for right waits for left" in text


def test_a_circle_of_dhagas_with_one_name_is_not_grouped_with_others() -> None:
    with virtual_clock():
        one, other = threading.Lock(), threading.Lock()
        dhagas: list[dhaga.Dhaga[Any]] = [dhaga.spawn(dhaga.sleep, 90, name="worker") for _ in range(3)]
        dhagas += [dhaga.spawn(lock_in_turn, *locks, name="worker") for locks in ((one, other), (other, one))]
        dhaga.sleep(2)
        text = debug.dump()
        for each in dhagas:
            each.cancel()
            each.join()
    assert "deadlock: worker waits for worker waits for worker" in text
    assert text.count("lock.acquire on <Lock held by worker, 1 parked>, held by worker") == 2


def test_a_circle_goes_through_joins_and_scopes() -> None:
    def parent() -> None:
        with Scope(name="family") as scope:
            scope.spawn(child, name="child")

    def child() -> None:
        elder.join()

    with virtual_clock():
        elder = dhaga.spawn(parent, name="parent")
        settle()
        snapshot = debug.snapshot()
        elder.cancel()
        elder.join()
    assert set(snapshot.cycles[0]) == {"parent", "child"}
    assert snapshot.find("child").scopes == ("<Scope family open, 1 child>",)


def test_no_circle_where_somebody_can_go_on() -> None:
    with virtual_clock():
        lock = threading.Lock()
        holder = dhaga.spawn(lock_in_turn, lock, threading.Lock())
        chain = dhaga.spawn(lock.acquire)
        last = dhaga.spawn(chain.join)
        settle()
        assert debug.snapshot().cycles == ()
        for each in (holder, chain, last):
            each.join()
        lock.release()


def test_durations_are_written_for_people() -> None:
    assert [duration(each) for each in (0.012, 3.44, 300, 7200)] == ["12 ms", "3.4 s", "5 min", "2.0 h"]


def test_dhagas_with_one_stack_are_described_once() -> None:
    with virtual_clock():
        lock, other = threading.Lock(), threading.Lock()
        with lock, other:
            waiters = [dhaga.spawn(lock.acquire, name=f"waiter-{n}") for n in range(24)]
            dhaga.sleep(2)
            waiters += [dhaga.spawn(lock.acquire, name="waiter-24")]
            waiters += [dhaga.spawn(lambda: other.acquire(), name=f"other-{n}") for n in range(2)]
            settle()
            lines = debug.dump().splitlines()
            for each in waiters:
                each.cancel()
                each.join()
    (first,) = [number for number, line in enumerate(lines) if "waiter" in line and "×" in line]
    assert lines[first] == (
        "  25 × waiter-… WAITING, waits for 0 ms to 2.0 s: lock.acquire on <Lock held by main code, 25 parked>, "
        "held by main code"
    )
    assert lines[first + 1] == f"    named {', '.join(f'waiter-{n}' for n in range(8))}, and 17 more"
    assert [line.split()[0] for line in lines if line.startswith("  other")] == [
        "other-0",
        "other-1",
    ]  # two are no group


def test_those_in_a_circle_are_described_one_by_one() -> None:
    with virtual_clock():
        locks = [threading.Lock() for _ in range(4)]
        dhagas = [dhaga.spawn(lock_in_turn, locks[n], locks[(n + 1) % 4], name=f"c-{n}") for n in range(4)]
        dhaga.sleep(2)
        lines = debug.dump().splitlines()
        for each in dhagas:
            each.cancel()
            each.join()
    assert [line.split()[0] for line in lines if line.startswith("  c-")] == ["c-0", "c-1", "c-2", "c-3"]


FORGED = "one WAITING\n  forged WAITING, waits for: nothing\x1b[2J\u2028"


def test_a_name_begins_no_line_of_its_own() -> None:
    with virtual_clock():
        lock = threading.Lock()
        with lock:
            waiter = dhaga.spawn(lock.acquire, name=FORGED)
            settle()
            view, text = debug.snapshot().find(FORGED), debug.dump()
            handlers = QueryHandlers()
            one = handlers.dump(waiter.ident)["text"]
            handlers.close()
        waiter.join()
        lock.release()
    assert view.name == FORGED
    for shown in (text, one):
        lines = [line for line in shown.splitlines() if "forged" in line]
        assert len(lines) == 1
        assert lines[0].strip().startswith(r"one WAITING\n  forged WAITING, waits for: nothing\x1b[2J\u2028 WAITING")


def test_the_scheduler_of_a_child_that_a_dhaga_forked_is_called_forked() -> None:
    assert prints("""
        import os
        import dhaga, dhaga.debug

        def fork():
            if (child := os.fork()):
                os.waitpid(child, 0)
            else:
                print("(forked), awake" in dhaga.debug.dump(), flush=True)
                os._exit(0)

        dhaga.spawn(fork).join()
    """) == ["True"]
