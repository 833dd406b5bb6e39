"""Methods that a program may replace on one object, as they are used by the queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.queue import LifoQueue, PriorityQueue, Queue
from dhaga.testing import settle, virtual_clock


@pytest.mark.parametrize("kind", [Queue, LifoQueue, PriorityQueue])
def test_methods_that_a_program_replaces_on_a_queue_are_called_until_it_puts_them_back(kind: Any) -> None:
    queue, calls = kind(), []
    methods = {name: getattr(queue, name) for name in ("_put", "_get", "_qsize")}

    def recorder(name: str) -> Callable[..., Any]:
        def method(*args: Any) -> Any:
            calls.append(name)
            return methods[name](*args)

        return method

    def called(call: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
        calls.clear()
        return call(*args), sorted({*calls} - {"_qsize"})

    for name in methods:
        setattr(queue, name, recorder(name))
    assert called(queue.put, 1) == (None, ["_put"]) and called(queue.get) == (1, ["_get"])
    assert called(queue.qsize) == (0, []) and calls == ["_qsize"]
    with virtual_clock():
        getter = dhaga.spawn(queue.get)
        settle()
        assert called(queue.put, 2) == (None, ["_get", "_put"]) and getter.result() == 2
    for name, method in methods.items():
        setattr(queue, name, method)
    assert called(queue.put, 3) == (None, []) and called(queue.get) == (3, []) and not calls


def test_a_replaced_method_may_be_deleted_and_the_classs_is_in_its_place_again() -> None:
    queue: Any = Queue()
    queue._put = lambda item: queue.queue.extend([item, item])
    queue.put(1)
    del queue._put
    queue.put(2)
    assert [queue.get() for _ in range(queue.qsize())] == [1, 1, 2]
    with pytest.raises(AttributeError):
        del queue._put
