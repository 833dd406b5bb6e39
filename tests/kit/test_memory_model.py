"""The memory model allows what C11 allows, and no more: the litmus tests of the literature."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.memory_model import Model, Program, Step


def program(*steps: Step) -> Program:
    """Return a thread whose result is the values that its loads found."""

    def run() -> Any:
        found = []
        for step in steps:
            answer = yield step
            if step.kind in ("load", "exchange", "await"):
                found.append(answer)
        return tuple(found)

    return run


def load(place: str, order: str = "relaxed") -> Step:
    return Step("load", place, None, order)


def store(place: str, value: int, order: str = "relaxed") -> Step:
    return Step("store", place, value, order)


def fence(order: str) -> Step:
    return Step("fence", order=order)


def results(*programs: Program) -> set[Any]:
    found = Model(list(programs), {"x": 0, "y": 0}).explore()
    assert not found.broken
    return found.results


@pytest.mark.parametrize(("between", "both_miss"), [("relaxed", True), ("acq_rel", True), ("seq_cst", False)])
def test_a_write_may_be_delayed_past_a_read_unless_a_full_fence_is_between(between: str, both_miss: bool) -> None:
    one = program(store("x", 1, "release"), fence(between), load("y", "acquire"))
    other = program(store("y", 1, "release"), fence(between), load("x", "acquire"))
    assert (((0,), (0,)) in results(one, other)) is both_miss
    assert {((1,), (0,)), ((0,), (1,)), ((1,), (1,))} <= results(one, other)


def test_a_fence_of_all_threads_serves_for_both() -> None:
    one, other = program(store("x", 1), load("y")), program(store("y", 1), Step("fence all"), load("x"))
    assert results(one, other) == {((1,), (0,)), ((0,), (1,)), ((1,), (1,))}


@pytest.mark.parametrize(
    ("write", "read", "stale"),
    [
        ([store("y", 1)], [load("y")], True),
        ([store("y", 1, "release")], [load("y")], True),
        ([store("y", 1)], [load("y", "acquire")], True),
        ([store("y", 1, "release")], [load("y", "acquire")], False),
        ([fence("release"), store("y", 1)], [load("y"), fence("acquire")], False),
        ([fence("release"), store("y", 1)], [load("y")], True),
        ([store("y", 1), fence("release")], [load("y", "acquire")], True),
        ([store("y", 1, "release"), store("y", 2)], [Step("await", "y", 2, "acquire")], True),
        ([store("y", 1, "release"), Step("exchange", "y", 2)], [Step("await", "y", 2, "acquire")], False),
    ],
)
def test_what_was_written_before_is_seen_by_release_and_acquire_alone(
    write: list[Step], read: list[Step], stale: bool
) -> None:
    found = results(program(store("x", 1), *write), program(*read, load("x")))
    assert any(flag > 0 and not x for _, (flag, x) in found) is stale
    assert any(flag > 0 and x for _, (flag, x) in found)


def test_two_readers_may_see_two_writes_in_different_orders() -> None:
    writes = [program(store(place, 1, "release")) for place in "xy"]
    for order, differ in (("acq_rel", True), ("seq_cst", False)):
        reads = [program(load(one, "acquire"), fence(order), load(other, "acquire")) for one, other in ("xy", "yx")]
        assert (((), (), (1, 0), (1, 0)) in results(*writes, *reads)) is differ


def test_a_thread_never_reads_an_older_value_of_a_place_than_before() -> None:
    found = results(program(store("x", 1), store("x", 2)), program(load("x"), load("x")))
    assert found == {((), pair) for pair in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]}


def test_a_store_may_come_before_one_that_was_made_earlier_but_never_within_an_exchange() -> None:
    last = program(load("y", "acquire"), load("y", "acquire"))
    found = results(program(store("y", 1)), program(store("y", 2)), last)
    assert {((), (), (1, 2)), ((), (), (2, 1))} <= found
    exchanges = program(Step("exchange", "x", 1))
    assert results(exchanges, exchanges) == {((0,), (1,)), ((1,), (0,))}
    found = results(program(Step("exchange", "x", 1)), program(store("x", 2)), program(*[load("x")] * 3))
    assert ((0,), (), (0, 2, 1)) not in found and ((2,), (), (0, 2, 1)) in found


def test_what_is_not_atomic_needs_an_order_and_a_lock_gives_one() -> None:
    bare = program(Step("use", "x"))
    locked = program(Step("lock", "y"), Step("use", "x"), Step("unlock", "y"))
    assert Model([bare, bare], {"x": 0}).explore().broken == {"race on x"}
    assert results(locked, locked) == {((), ())}


def test_a_wait_without_an_end_is_found() -> None:
    waits = program(Step("await", "x", 1))
    held = program(Step("lock", "x"))
    for programs in ([waits], [held, held]):
        assert "nothing goes on" in "".join(Model(programs, {"x": 0}).explore().broken)
