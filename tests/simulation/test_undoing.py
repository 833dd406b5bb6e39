from __future__ import annotations

import pytest

from dhaga.simulation._base.undoing import Undoing


def test_calls_are_made_the_last_first_and_once() -> None:
    made: list[int] = []
    undoing = Undoing()
    for n in range(3):
        undoing.callback(made.append, n)
    undoing.close()
    undoing.close()
    assert made == [2, 1, 0]


def test_the_calls_after_one_that_fails_are_made() -> None:
    made: list[int] = []
    undoing = Undoing()
    undoing.callback(made.append, 1)
    undoing.callback({}.__getitem__, "missing")
    undoing.callback(made.append, 2)
    with pytest.raises(KeyError, match="missing"):
        undoing.close()
    assert made == [2, 1]


def test_an_attribute_that_was_set_twice_gets_its_first_value_back() -> None:
    class Owner:
        value = 0

    undoing = Undoing()
    undoing.set(Owner, "value", 1)
    undoing.set(Owner, "value", 2)
    assert Owner.value == 2
    undoing.close()
    assert Owner.value == 0
