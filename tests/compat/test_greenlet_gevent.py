"""gevent's Greenlet: made first and started later, killed, linked, joined."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent import Greenlet, GreenletExit, Timeout
from dhaga.compat.gevent.pool import Group

pytestmark = pytest.mark.usefixtures("clock")


def double(number: int, seconds: float = 1) -> int:
    gevent.sleep(seconds)
    return number * 2


def fail(*_: object) -> None:
    raise ValueError("wrong")


def silent(greenlet: Any) -> Any:
    """Wait for the result of a greenlet that fails, so that its error is not reported."""
    with pytest.raises(ValueError, match="wrong"):
        greenlet.get()
    return greenlet


def test_it_runs_once_it_is_started() -> None:
    made = Greenlet(double, 2)
    assert (made.started, bool(made), made.ready(), made.value) == (False, False, False, None)
    made.start()
    assert made.started and bool(made) and made.get() == 4
    assert (made.started, made.ready(), made.successful(), made.value, made.exception, made.exc_info) == (
        *(False, True, True, 4, None, ()),
    )


def test_a_subclass_has_run() -> None:
    class Adder(Greenlet):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def _run(self) -> int:
            return self.number + 1

    assert Adder.spawn(1).get() == 2
    with pytest.raises(TypeError):
        Greenlet(3)


def test_spawn_later_starts_after_its_seconds(clock: Any) -> None:
    later = gevent.spawn_later(5, clock)
    assert later.started
    gevent.sleep(4)
    assert not later.ready()
    assert later.get() == pytest.approx(5)


def test_get_raises_the_error_and_the_greenlet_keeps_it() -> None:
    failed = silent(gevent.spawn(fail))
    assert (failed.successful(), failed.value, str(failed.exception)) == (False, None, "wrong")
    assert failed.exc_info[:2] == (ValueError, failed.exception)


def test_get_and_join_take_a_timeout() -> None:
    slow = gevent.spawn(double, 1, 5)
    with pytest.raises(Timeout):
        slow.get(timeout=1)
    with pytest.raises(Timeout):
        slow.get(block=False)
    slow.join(1)
    assert not slow.ready()
    slow.join()
    assert slow.value == 2


def test_a_kill_ends_it_where_it_waits_and_is_no_failure() -> None:
    ended = []

    def wait() -> None:
        try:
            gevent.sleep(100)
        finally:
            ended.append(1)

    victim = gevent.spawn(wait)
    gevent.sleep(0)
    victim.kill()
    assert (ended, victim.ready(), victim.successful(), type(victim.value)) == ([1], True, True, GreenletExit)
    assert type(victim.get()) is GreenletExit


@pytest.mark.parametrize("how", ["unstarted", "spawned", "later"])
def test_what_is_killed_before_its_start_never_runs(how: str) -> None:
    ran: list[int] = []
    victim = Greenlet(ran.append, 1)
    if how == "spawned":
        victim.start()
    elif how == "later":
        victim.start_later(1)
    victim.kill()
    victim.start()
    gevent.sleep(2)
    assert (ran, victim.ready(), victim.successful(), type(victim.value)) == ([], True, True, GreenletExit)


def test_a_start_does_not_hasten_what_a_timer_will_start() -> None:
    ran: list[int] = []
    greenlet = gevent.spawn_later(1, ran.append, 1)
    greenlet.start()
    gevent.sleep(0)
    assert ran == [] and greenlet.started
    greenlet.join()
    assert ran == [1]


def later(function: Any) -> Any:
    return gevent.spawn_later(100, function)


@pytest.mark.parametrize(
    "kill",
    [
        lambda victim: victim.kill(block=False),
        lambda victim: gevent.killall([victim], block=False),
        lambda victim: victim.throw(),
    ],
)
@pytest.mark.parametrize(("begun", "spawn"), [(True, gevent.spawn), (False, gevent.spawn), (False, later)])
def test_a_kill_that_does_not_block_ends_a_greenlet_by_the_next_yield(kill: Any, begun: bool, spawn: Any) -> None:
    called = []
    victim = spawn(lambda: (called.append("called"), gevent.sleep(100)))
    if begun:
        gevent.sleep(0)
    kill(victim)
    assert victim.dead is (spawn is later)  # with gevent, also if it was spawned and has not begun: see docs/compat.md
    gevent.sleep(0)
    assert victim.dead and victim.successful() and isinstance(victim.value, gevent.GreenletExit)
    assert called == ["called"] * begun


def test_it_may_catch_what_it_is_killed_with() -> None:
    def stubborn() -> str:
        try:
            gevent.sleep(100)
        except KeyError:
            gevent.sleep(1)
        return "done"

    victim = gevent.spawn(stubborn)
    gevent.sleep(0)
    victim.kill(KeyError, block=False)
    assert not victim.ready()
    assert victim.get() == "done"


@pytest.mark.parametrize("kill", [Greenlet.kill, lambda victim: gevent.killall([victim])], ids=["kill", "killall"])
def test_the_killer_goes_on_before_those_that_yield_meanwhile(kill: Any) -> None:
    trace: list[str] = []

    def wait() -> None:
        try:
            gevent.sleep(100)
        finally:
            trace.append("victim ends")

    def end_it() -> None:
        kill(victim)
        trace.append("killer goes on")

    victim = gevent.spawn(wait)
    gevent.sleep(0)
    killer = gevent.spawn(end_it)
    for each in ("first", "second"):
        gevent.sleep(0)
        trace.append(each)
    killer.join()
    assert trace == ["first", "victim ends", "killer goes on", "second"]


def test_kill_waits_for_its_seconds() -> None:
    def slow_end() -> None:
        try:
            gevent.sleep(100)
        finally:
            gevent.sleep(5)

    victim = gevent.spawn(slow_end)
    gevent.sleep(0)
    victim.kill(timeout=1)
    assert not victim.ready()
    victim.join()


def test_links_are_called_in_their_order_in_greenlets_of_their_own() -> None:
    seen: list[Any] = []
    source = gevent.spawn(double, 4)
    for each in "abc":
        source.link(lambda ended, each=each: seen.append((each, ended.value)))
    gone = seen.append
    source.link(gone)
    source.unlink(gone)
    source.join()
    source.link(lambda ended: gevent.sleep(1))
    gevent.sleep(2)
    assert seen == [("a", 8), ("b", 8), ("c", 8)]


def test_a_method_may_be_unlinked() -> None:
    seen: list[Any] = []

    class Listener:
        def hear(self, source: Any) -> None:
            seen.append(source)

    listener, source = Listener(), gevent.spawn(double, 4)
    source.link(listener.hear)
    assert source.linkcount() == 1
    source.unlink(listener.hear)
    assert not source.has_links()
    source.join()
    gevent.sleep(1)
    assert seen == []


def test_a_with_block_waits_for_its_end_or_kills_it() -> None:
    with gevent.spawn(double, 4) as waited:
        pass
    assert waited.value == 8
    with pytest.raises(Timeout), Timeout(1), gevent.spawn(double, 1, 100) as killed:
        pass
    assert killed.ready() and killed.successful()


def test_link_value_and_link_exception_take_their_outcome_alone() -> None:
    seen: list[str] = []
    good, bad = gevent.spawn(int), gevent.spawn(fail)
    for each in (good, bad):
        each.link_value(lambda ended: seen.append("value"))
        each.link_exception(lambda ended: seen.append(str(ended.exception)))
    silent(bad)
    gevent.sleep(1)
    assert sorted(seen) == ["value", "wrong"]


def test_spawn_callbacks_are_called_once_for_each_start() -> None:
    seen: list[Any] = []
    Greenlet.add_spawn_callback(seen.append)
    Greenlet.add_spawn_callback(seen.append)  # is one callback
    try:
        spawned = [gevent.spawn(double, 1), gevent.spawn_later(2, double, 1), made := Greenlet(double, 1)]
        assert seen == spawned[:2]
        made.start()
        gevent.joinall(spawned)
        assert seen == spawned
    finally:
        Greenlet.remove_spawn_callback(seen.append)
    gevent.spawn(double, 1).join()
    assert len(seen) == 3


def test_a_repr_tells_the_call_also_at_its_end_and_a_name_once_there_is_one() -> None:
    greenlet = gevent.spawn(double, 1, seconds=0)
    assert repr(greenlet) == f"<Greenlet at {id(greenlet):#x}: double(1, seconds=0)>"
    assert greenlet.name == f"Greenlet-{greenlet.ident}"
    greenlet.join()
    assert repr(greenlet) == f'<Greenlet "{greenlet.name}" at {id(greenlet):#x}: double(1, seconds=0)>'
    greenlet.name = "mine"
    assert repr(greenlet).startswith('<Greenlet "mine" at')


def test_greenlets_of_one_tree_share_its_locals() -> None:
    def spawner() -> tuple[Any, Any]:
        child = Greenlet(double, 1)
        return child.spawn_tree_locals, child.spawning_greenlet()

    first, second = Greenlet(spawner), Greenlet(spawner)
    assert first.spawn_tree_locals is not second.spawn_tree_locals
    first.start()
    assert first.get() == (first.spawn_tree_locals, first) and first.spawn_tree_locals == {}


def test_an_error_in_a_with_block_kills_it_by_that_error(caplog: pytest.LogCaptureFixture) -> None:
    error = KeyError("mine")
    with pytest.raises(KeyError), gevent.spawn(double, 1, 9) as greenlet:
        gevent.sleep(1)
        raise error
    assert greenlet.ready() and greenlet.exception is error
    assert "KeyError: 'mine'" in caplog.text
    caplog.clear()


def test_a_linked_callback_that_another_one_unlinks_is_not_called() -> None:
    seen: list[str] = []
    greenlet = gevent.spawn(double, 1)

    def first(source: Any) -> None:
        seen.append("first")
        source.unlink(second)

    def second(source: Any) -> None:
        seen.append("second")
        source.unlink(first)

    greenlet.link(first)
    greenlet.link(second)
    gevent.sleep(2)
    assert seen == ["first"] and not greenlet.has_links()


def test_its_parent_is_the_hub_and_the_hub_awaits() -> None:
    async def answer() -> int:
        return 5

    greenlet = gevent.spawn(double, 1)
    parent = greenlet.parent
    assert parent is gevent.get_hub() and parent.minimal_ident == 0
    assert parent.switch(answer()) == 5
    greenlet.join()


class Worker(Greenlet):
    """A greenlet with attributes and methods of the names that programs choose for theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.done = self.pending = self.queue = self.target = self.error = self.reason_given = "the program's"
        self.timers = self.live = self.since = self.joiners = self.ticket = self.result_queue = "the program's"

    def _run(self) -> str:
        gevent.sleep(1)
        return self.prepare() + self.wake_up() + self.resume() + self.expire()

    def prepare(self) -> str:
        return "a"

    def wake_up(self) -> str:
        return "b"

    def resume(self) -> str:
        return "c"

    def expire(self) -> str:
        return "d"


def test_a_program_may_give_a_greenlet_attributes_and_methods_of_ordinary_names() -> None:
    """None of them is a name of the kernel's internal API, which would park and wake by them."""
    worker = Worker()
    worker.start()
    assert worker.get(timeout=5) == "abcd"
    assert {value for value in vars(worker).values() if isinstance(value, str)} == {"the program's"}


def test_the_body_of_a_generator_function_does_not_run_as_with_gevent() -> None:
    def items() -> Iterator[int]:
        yield 1

    assert inspect.isgenerator(gevent.spawn(items).get())


@pytest.mark.parametrize(
    "kill",
    [
        lambda me, group: me.kill(block=False),
        lambda me, group: gevent.kill(me),
        lambda me, group: group.killone(me, block=False),
        lambda me, group: group.kill(block=False),
        lambda me, group: gevent.killall([me], block=False),
    ],
)
def test_a_greenlet_that_kills_itself_without_block_goes_on_until_its_next_wait(kill: Any) -> None:
    trace: list[str] = []
    group = Group()

    def body() -> None:
        kill(gevent.getcurrent(), group)
        trace.append("killed")
        try:
            gevent.sleep(0)
            trace.append("went on")
        finally:
            trace.append("finally")

    group.spawn(body)
    assert group.join(timeout=5) and trace == ["killed", "finally"]


@pytest.mark.parametrize(
    "kill",
    [
        lambda me, group: me.kill(),
        lambda me, group: me.throw(),
        lambda me, group: (me.kill(block=False), me.join()),
        lambda me, group: group.killone(me),
        lambda me, group: group.kill(),
        lambda me, group: gevent.killall([me]),
    ],
)
def test_a_greenlet_that_waits_for_its_own_kill_ends_there(kill: Any) -> None:
    trace: list[str] = []
    group = Group()

    def body() -> None:
        try:
            kill(gevent.getcurrent(), group)
            trace.append("went on")
        finally:
            trace.append("finally")

    greenlet = group.spawn(body)
    assert group.join(timeout=5) and trace == ["finally"]
    assert isinstance(greenlet.value, GreenletExit)


def test_a_join_with_a_timeout_waits_for_a_greenlet_that_is_started_meanwhile() -> None:
    greenlet = gevent.Greenlet(int, "5")
    gevent.spawn_later(1, greenlet.start)
    greenlet.join(timeout=2)
    assert greenlet.value == 5
    unstarted = gevent.Greenlet(int)
    unstarted.join(timeout=2)
    assert not unstarted.dead
