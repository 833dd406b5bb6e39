"""Generator functions of greenlets: `dhaga.spawn` refuses one, gevent's and eventlet's spawn call it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import dhaga
from dhaga.compat._shared.generator_functions import taken_by_spawn
from dhaga.testing import virtual_clock


def items() -> Iterator[int]:
    yield 1


def test_a_generator_function_is_called_and_another_function_is_left_as_it_is() -> None:
    with virtual_clock():
        with pytest.raises(TypeError, match="is a generator function"):
            dhaga.spawn(items)
        assert inspect.isgenerator(dhaga.spawn(taken_by_spawn(items)).result())
    assert taken_by_spawn(len) is len and taken_by_spawn(virtual_clock) is virtual_clock
