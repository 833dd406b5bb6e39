"""After a preemption a dhaga sees no other dhaga's state of the OS thread, such as C's errno and a repr under way."""

from __future__ import annotations

import collections
import ctypes
import errno
import os
import types
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.testing import preempt_everywhere
from tests._kernel.test_preemption_strikes import needs_events


class Slow:
    """An object whose ``repr`` takes some events."""

    def __repr__(self) -> str:
        return "".join(str(each) for each in range(3))


SHARED: dict[str, Callable[[], Any]] = {
    "list": lambda: [Slow(), Slow()],
    "tuple": lambda: (Slow(), Slow()),
    "dict": lambda: {"first": Slow()},
    "set": lambda: {Slow()},
    "deque": lambda: collections.deque([Slow()]),
    "ordered": lambda: collections.OrderedDict(first=Slow()),
    "namespace": lambda: types.SimpleNamespace(first=Slow()),
    "view": lambda: {"first": Slow()}.values(),
}


@needs_events
@pytest.mark.parametrize("name", SHARED)
def test_a_shared_container_has_one_repr(name: str) -> None:
    shared = SHARED[name]()
    expected = repr(shared)
    with preempt_everywhere():
        shown = [dhaga.spawn(repr, shared) for _ in range(4)]
        assert {each.result() for each in shown} == {expected}
    assert repr(shared) == expected


@needs_events
def test_a_container_that_holds_itself_has_its_dots() -> None:
    shared: list[Any] = [Slow()]
    shared.append(shared)
    with preempt_everywhere():
        shown = [dhaga.spawn(repr, shared) for _ in range(4)]
        assert {each.result() for each in shown} == {"[012, [...]]"}


@needs_events
def test_the_errno_of_ctypes_is_the_callers_own() -> None:
    seek = ctypes.CDLL(None, use_errno=True).lseek
    read_end, write_end = os.pipe()

    def count_wrong(fd: int, expected: int) -> int:
        wrong = 0
        for _ in range(20):
            ctypes.set_errno(0)
            seek(fd, 0, 0)
            for _ in range(3):
                pass
            wrong += ctypes.get_errno() != expected
        return wrong

    with preempt_everywhere():
        counts = [dhaga.spawn(count_wrong, *each) for each in [(-1, errno.EBADF), (read_end, errno.ESPIPE)] * 2]
        assert [each.result() for each in counts] == [0, 0, 0, 0]
    os.close(read_end)
    os.close(write_end)
