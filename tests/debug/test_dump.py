"""The dump: who waits for what, since when, who holds it, and who waits in circles."""

from __future__ import annotations

import json
import time
from threading import Event as StandardEvent

import dhaga
from dhaga import Scope, debug, queue, threading
from dhaga.debug.dump import duration, json_of
from dhaga.testing import settle, virtual_clock


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
        dhagas = [
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
    assert snapshot.circles == (("left", "right"),)
    assert "deadlock: left waits for right waits for left" in text


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
    assert set(snapshot.circles[0]) == {"parent", "child"}
    assert snapshot.find("child").scopes == ("<Scope family open, 1 children>",)


def test_no_circle_where_somebody_can_go_on() -> None:
    with virtual_clock():
        lock = threading.Lock()
        holder = dhaga.spawn(lock_in_turn, lock, threading.Lock())
        chain = dhaga.spawn(lock.acquire)
        last = dhaga.spawn(chain.join)
        settle()
        assert debug.snapshot().circles == ()
        for each in (holder, chain, last):
            each.join()
        lock.release()


def test_other_schedulers_are_looked_at_in_their_threads() -> None:
    jobs: queue.Queue[None] = queue.Queue()
    with dhaga.Scheduler(name="io") as io:
        getter = io.spawn(jobs.get, name="getter")
        while getter.state != "WAITING":
            time.sleep(0.001)
        view = next(each for each in debug.snapshot().schedulers if each.name == "io")
        jobs.put(None)
        getter.join()
    assert (view.life, view.held) == ("own thread", False)
    assert [(each.name, each.reason, bool(each.stack)) for each in view.dhagas] == [("getter", "queue.get", True)]


def test_a_held_scheduler_is_looked_at_from_outside() -> None:
    began, end = StandardEvent(), StandardEvent()

    def hold() -> None:
        began.set()
        end.wait()  # blocks the OS thread

    with dhaga.Scheduler(name="io") as io:
        holder = io.spawn(hold, name="holder")
        began.wait()
        view = next(each for each in debug.snapshot(patience=0.01).schedulers if each.name == "io")
        end.set()
        holder.join()
    assert view.held
    assert "hold" in [frame.function for frame in view.stack]
    assert [(each.name, each.state) for each in view.dhagas] == [("holder", "RUNNING")]


def test_a_plain_thread_that_waits_is_shown() -> None:
    jobs: queue.Queue[None] = queue.Queue()
    thread = dhaga.kernel.originals.Thread(target=jobs.get, name="plain")
    thread.start()
    while not (views := [each for each in debug.snapshot().threads if each.name == "plain"]):
        time.sleep(0.001)
    jobs.put(None)
    thread.join()
    assert (views[0].kind, views[0].reason) == ("OS thread", "queue.get")


def test_where_a_dhaga_was_spawned_is_told_once_that_is_recorded() -> None:
    def spawns(name: str) -> dhaga.Dhaga[None]:
        return dhaga.spawn(dhaga.sleep, 1, name=name)

    with virtual_clock():
        early = spawns("early")
        debug.record_origins()
        late = spawns("late")
        debug.record_origins(False)
        snapshot = debug.snapshot()
        early.join()
        late.join()
    assert snapshot.find("early").spawned == ()
    assert snapshot.find("late").spawned[-1].function == "spawns"


def test_a_snapshot_is_json() -> None:
    with virtual_clock():
        dhagas = [dhaga.spawn(dhaga.sleep, 1, name=f"sleeper {n}") for n in range(100)]
        settle()
        found = json.loads(json_of(debug.snapshot()))
        for each in dhagas:
            each.join()
    assert [each["name"] for each in found["schedulers"][0]["dhagas"]] == [
        "main code",
        *(f"sleeper {n}" for n in range(100)),
    ]


def test_durations_are_written_for_people() -> None:
    assert [duration(each) for each in (0.012, 3.44, 300, 7200)] == ["12 ms", "3.4 s", "5 min", "2.0 h"]
