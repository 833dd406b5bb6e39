"""``local``: attributes that each dhaga, and each OS thread's other code, has for itself."""

from __future__ import annotations

import copy
import gc
import pickle
import threading as standard
import weakref
from typing import Any

import pytest

import dhaga
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga.testing import virtual_clock
from dhaga.threading import Thread, local
from tests.kit.parking import parked


def test_each_dhaga_sees_what_it_has_put_in_itself() -> None:
    with virtual_clock():
        mine = local()
        mine.x = "main"

        def uses(n: int) -> tuple[bool, int]:
            before = hasattr(mine, "x")
            mine.x = n
            dhaga.sleep(1)
            return before, mine.x

        dhagas = [dhaga.spawn(uses, n) for n in range(3)]
        assert [d.result() for d in dhagas] == [(False, n) for n in range(3)]
        assert mine.x == "main"
        thread = Thread(target=lambda: setattr(mine, "x", "thread"))
        thread.start()
        thread.join()
        assert mine.x == "main"


def test_each_os_thread_sees_its_own_and_so_do_the_dhagas_in_it() -> None:
    seen: list[object] = []
    mine = local()
    mine.x = "main"

    def thread_code() -> None:
        seen.append(hasattr(mine, "x"))
        mine.x = "thread"
        with dhaga.Scheduler() as scheduler:
            seen.append(scheduler.spawn(hasattr, mine, "x").result())
        seen.append(mine.x)

    thread = standard.Thread(target=thread_code)
    thread.start()
    thread.join()
    assert seen == [False, False, "thread"] and mine.x == "main"


def test_two_locals_are_independent() -> None:
    one, other = local(), local()
    one.x = 1
    assert not hasattr(other, "x")


def test_a_subclasss_init_runs_once_for_each_dhaga_that_uses_it() -> None:
    trace: list[object] = []

    class Numbered(local):
        shared = "class"

        def __init__(self, start: int, *, step: int = 1) -> None:
            trace.append(("init", start, step))
            self.value = start
            self.step = step

        def advance(self) -> int:
            self.value += self.step
            return self.value

    with virtual_clock():
        mine = Numbered(10, step=5)
        assert (mine.advance(), mine.advance(), mine.shared) == (15, 20, "class")
        trace.append("made")

        def uses() -> list[int]:
            first = mine.advance()
            dhaga.sleep(1)
            return [first, mine.advance()]

        assert parked(uses).result() == [15, 20]
        assert dhaga.spawn(mine.advance).result() == 15
        assert parked(lambda: None).result() is None  # does not use it
        assert mine.advance() == 25
    assert trace == [("init", 10, 5), "made", ("init", 10, 5), ("init", 10, 5)]


def test_an_init_that_fails_runs_again_at_the_next_use() -> None:
    class Unready(local):
        def __init__(self) -> None:
            if next(fails):
                raise ConnectionError("not yet")
            self.x = 1

    def uses() -> list[object]:
        with pytest.raises(ConnectionError):
            mine.x
        return [mine.x, vars(mine)]

    fails = iter([False, True, False, True, False])
    mine = Unready()
    answers: list[object] = []
    thread = standard.Thread(target=lambda: answers.append(uses()))
    thread.start()
    thread.join()
    assert answers == [dhaga.spawn(uses).result()] == [[1, {"x": 1}]]


def test_one_made_in_a_dhaga_is_initialised_there_once() -> None:
    trace: list[str] = []

    class Noted(local):
        def __init__(self) -> None:
            trace.append("init")
            self.x = 1

    with virtual_clock():

        def makes() -> tuple[Any, int]:
            mine = Noted()
            return mine, mine.x

        mine, x = dhaga.spawn(makes).result()
        assert x == 1 and trace == ["init"]
        assert mine.x == 1
    assert trace == ["init", "init"]


def test_arguments_need_an_init_that_takes_them() -> None:
    with pytest.raises(TypeError, match="Initialization arguments are not supported"):
        local(1)
    with pytest.raises(TypeError, match="Initialization arguments are not supported"):
        local(x=1)


class Thing: ...


def test_what_a_dhaga_has_put_in_is_dropped_at_its_end() -> None:
    with virtual_clock():
        mine = local()

        def uses() -> weakref.ref[Thing]:
            mine.thing = Thing()
            ref = weakref.ref(mine.thing)
            dhaga.sleep(1)
            assert ref() is mine.thing
            return ref

        d = dhaga.spawn(uses)
        assert d.result()() is None  # though the dhaga and the local are still there
        thread = Thread(target=lambda: refs.append(uses()))
        refs: list[weakref.ref[Thing]] = []
        thread.start()
        thread.join()
        assert refs[0]() is None


def test_what_is_in_a_local_that_a_dhaga_has_made_is_dropped_at_the_dhagas_end() -> None:
    with virtual_clock():

        def makes() -> tuple[local, weakref.ref[Thing]]:
            mine = local()
            mine.thing = Thing()
            return mine, weakref.ref(mine.thing)

        d = dhaga.spawn(makes)
        mine, ref = d.result()
        assert ref() is None and not hasattr(mine, "thing")


def test_what_a_local_keeps_goes_with_it_though_the_dhaga_lives_on() -> None:
    with virtual_clock():

        def uses() -> bool:
            mine = local()
            mine.thing = Thing()
            ref = weakref.ref(mine.thing)
            del mine
            if FREE_THREADED:  # what a standard local kept for main code is freed a moment later there
                gc.collect()
            return ref() is None

        assert dhaga.spawn(uses).result() is True
        assert uses() is True


def test_dict_holds_the_attributes_of_who_runs_and_cannot_be_replaced() -> None:
    with virtual_clock():
        mine = local()
        mine.x = 1
        assert mine.__dict__ == {"x": 1}
        assert dhaga.spawn(lambda: dict(mine.__dict__)).result() == {}
        mine.__dict__["y"] = 2
        assert mine.y == 2 and vars(mine) == {"x": 1, "y": 2}
        with pytest.raises(AttributeError, match="'__dict__' is read-only"):
            mine.__dict__ = {}
        with pytest.raises(AttributeError, match="'__dict__' is read-only"):
            del mine.__dict__


def test_attributes_are_deleted_and_missed_as_usual() -> None:
    mine = local()
    mine.x = 1
    del mine.x
    with pytest.raises(AttributeError, match="x"):
        mine.x
    with pytest.raises(AttributeError, match="x"):
        del mine.x
    assert getattr(mine, "x", "default") == "default"


def test_properties_slots_and_class_attributes_of_a_subclass_work() -> None:
    class Kind(local):
        __slots__ = ("shared",)
        level = 1

        @property
        def double(self) -> int:
            return self.x * 2

        @double.setter
        def double(self, value: int) -> None:
            self.x = value // 2

    with virtual_clock():
        mine = Kind()
        mine.double = 8
        mine.shared = "slot"
        mine.level = 2
        assert (mine.x, mine.double, mine.level, Kind.level) == (4, 8, 2, 1)

        def uses() -> tuple[str, int, bool]:
            return mine.shared, mine.level, hasattr(mine, "x")

        assert dhaga.spawn(uses).result() == ("slot", 1, False)  # a slot is one for all, as in the standard one
        assert set(mine.__dict__) == {"x", "level"}


@pytest.mark.parametrize("kind", [standard.local, local])
def test_descriptors_that_hide_themselves_from_the_class_go_before_attributes(kind: Any) -> None:
    class Getter:
        def __get__(self, owner: Any, owners: type) -> str:
            return "got"

    class Setter(Getter):
        def __set__(self, owner: Any, value: int) -> None:
            owner.__dict__["set"] = value

    class Deleter(Getter):
        def __delete__(self, owner: Any) -> None:
            owner.__dict__.clear()

    class Mine(kind):
        get, set, delete = Getter(), Setter(), Deleter()

    class Mines(Mine):
        pass

    mine = Mines()
    mine.get = mine.set = 1
    mine.__dict__["delete"] = 1
    assert (mine.get, mine.set, mine.delete) == (1, "got", "got")
    assert mine.__dict__ == {"get": 1, "set": 1, "delete": 1}
    with pytest.raises(AttributeError, match="__delete__"):
        del mine.set
    with pytest.raises(AttributeError, match="__set__"):
        mine.delete = 1
    del mine.get
    assert mine.get == "got"
    with pytest.raises(AttributeError, match="'Mines' object has no attribute 'get'"):
        del mine.get
    del mine.delete
    assert mine.__dict__ == {}


def test_one_cannot_be_copied_or_pickled_as_the_standard_one() -> None:
    class Mine(local):
        pass

    class Told(local):
        def __getstate__(self) -> dict[str, int]:
            return {"x": self.x}

    for kind in (local, Mine):
        one = kind()
        one.x = 1
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"cannot pickle .*{kind.__name__}' object"):
                way(one)
    told = Told()
    told.x = 1
    other = copy.copy(told)
    other.x += 1
    assert (told.x, other.x) == (1, 2)


def test_a_dhaga_that_runs_for_long_keeps_nothing_of_locals_that_come_and_go() -> None:
    def uses_many() -> int:
        mine = [local() for _ in range(3)]
        for each in mine:
            each.x = 1
        for _ in range(1000):
            local().x = 1
        references = dhaga.current().thread_local_refs
        assert references is not None and sum(reference() is not None for reference in references) == 3
        return len(references)

    with virtual_clock():
        assert dhaga.spawn(uses_many).result() < 100


def test_the_end_of_a_dhaga_drops_what_it_put_into_many_locals() -> None:
    mine = [local() for _ in range(1000)]

    def uses() -> None:
        for each in mine:
            each.x = Thread()
            seen.append(weakref.ref(each.x))

    seen: list[Any] = []
    with virtual_clock():
        dhaga.spawn(uses).join()
        assert len(seen) == 1000 and not any(reference() for reference in seen)
