"""Greenthreads that wait for each other's results."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.dagpool import Collision, DAGPool, PropagateError


def total(key: str, results: Any, add: int = 0) -> int:
    return add + sum(value for _, value in results)


def test_each_runs_once_what_it_depends_on_is_there() -> None:
    pool = DAGPool({"a": 1})
    pool.spawn_many({"d": ["b", "c"], "c": ["a", "b"], "b": ["a"]}, total, add=1)
    assert pool.running() == 3 and sorted(pool.running_keys()) == ["b", "c", "d"]
    assert pool.waiting_for() == {"c": {"b"}, "d": {"b", "c"}} and pool.waiting() == 2
    assert pool.waiting_for("d") == {"b", "c"} and pool.get("d", "not yet") == "not yet"
    assert pool["d"] == 7 and pool.waitall() == {"a": 1, "b": 2, "c": 4, "d": 7}
    assert sorted(pool.items()) == [("a", 1), ("b", 2), ("c", 4), ("d", 7)] and pool.waiting_for("d") == set()
    assert pool.running() == 0 and sorted(pool.keys()) == ["a", "b", "c", "d"]
    with pytest.raises(KeyError):
        pool.waiting_for("unknown")


def test_values_come_in_the_order_of_time() -> None:
    pool = DAGPool()
    seen: list[Any] = []
    reader = eventlet.spawn(lambda: seen.extend(pool.wait_each("ab")))
    eventlet.sleep(0)
    pool.post("b", 2)
    eventlet.sleep(0)
    pool.post("a", 1)
    reader.wait()
    assert seen == [("b", 2), ("a", 1)] and [*pool.wait_each([])] == []


def test_an_error_goes_on_to_all_that_depend_on_it() -> None:
    pool = DAGPool([("ok", 1)])
    pool.spawn("x", [], lambda key, results: 1 // 0)
    pool.spawn("y", ["x"], total)
    with pytest.raises(PropagateError, match=r"PropagateError\(y\): PropagateError: .*ZeroDivisionError") as caught:
        pool["y"]
    error: Any = caught.value
    assert (error.key, error.exc.key, type(error.exc.exc)) == ("y", "x", ZeroDivisionError)
    assert dict(pool.wait_each_success()) == {"ok": 1}
    assert {key for key, _ in pool.wait_each_exception()} == {"x", "y"}
    with pytest.raises(PropagateError):
        pool.get("x")


def test_a_key_has_one_value() -> None:
    pool = DAGPool()
    pool.spawn("x", ["never"], total)
    for call in (lambda: pool.spawn("x", [], total), lambda: pool.post("x", 1)):
        with pytest.raises(Collision, match="x"):
            call()
    pool.kill("x")
    assert pool.running() == 0
    pool.post("x", 1)
    with pytest.raises(Collision):
        pool.post("x", 2)
    pool.post("x", 2, replace=True)
    assert pool["x"] == 2
    with pytest.raises(KeyError):
        pool.kill("x")


def test_a_greenthread_may_post_its_own_value() -> None:
    pool = DAGPool()
    pool.spawn("x", [], lambda key, results: pool.post(key, "posted"))
    assert pool.wait(["x"]) == {"x": "posted"}
