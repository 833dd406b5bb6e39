"""Faces of standard modules: names that they lack are the standard module's, and they refuse what it refuses."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import pickle
import queue
import select
import socket
import sys
import threading
import time
import typing
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import dhaga.queue
import dhaga.select
import dhaga.socket
import dhaga.threading
from dhaga._kernel.faces.stdlib_face import BuiltinFunction, builtin_function

FACES = ("io", "os", "select", "selectors", "signal", "socket", "ssl", "subprocess", "thread", "time")


@pytest.mark.parametrize("name", FACES)
def test_a_face_has_every_name_of_its_standard_module(name: str) -> None:
    face = importlib.import_module(f"dhaga.{name}")
    standard = importlib.import_module("_thread" if name == "thread" else name)
    assert {*dir(standard), *vars(face)} <= {*dir(face)}
    assert all(hasattr(face, each) for each in dir(standard))


def test_a_missing_name_is_reported_as_the_standard_module_does() -> None:
    with pytest.raises(AttributeError, match="module 'time' has no attribute 'never'"):
        importlib.import_module("dhaga.time").never


def test_a_patch_of_the_standard_module_shows_through_its_face(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 7)
    assert importlib.import_module("dhaga.time").perf_counter() == 7


PAIRS = [
    *((getattr(dhaga.threading, name), getattr(threading, name)) for name in ("Condition", "Event", "Lock", "RLock")),
    *(
        (getattr(dhaga.threading, name), getattr(threading, name))
        for name in ("BoundedSemaphore", "Semaphore", "local")
    ),
    *((getattr(dhaga.queue, name), getattr(queue, name)) for name in ("LifoQueue", "PriorityQueue", "Queue")),
    (dhaga.queue.SimpleQueue, queue.SimpleQueue),
    (dhaga.socket.socket, socket.socket),
    *((getattr(dhaga.select, name), getattr(select, name)) for name in ("poll", "epoll") if hasattr(select, name)),
]


def refused(thing: Any) -> list[bool]:
    """Return whether each way to copy a thing raises TypeError."""

    def refuses(way: Callable[[Any], object]) -> bool:
        try:
            way(thing)
        except TypeError as error:
            assert str(error).startswith("cannot pickle ")
            return True
        return False

    try:
        return [refuses(way) for way in (copy.copy, copy.deepcopy, pickle.dumps)]
    finally:
        if hasattr(thing, "close"):
            thing.close()


@pytest.mark.parametrize(("ours", "standard"), PAIRS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_what_the_standard_refuses_to_copy_or_pickle_is_refused_here(ours: Any, standard: Any) -> None:
    assert refused(ours()) == refused(standard())


def kept_in_a_class() -> None:
    """Take part in a class, as a C function may."""


kept = BuiltinFunction(kept_in_a_class)


class Holder:
    function = kept


def test_a_function_that_stands_for_a_c_function_does_not_become_a_method() -> None:
    assert Holder.function is Holder().function is kept
    assert Holder().function() is None


def test_tools_read_it_as_the_python_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "kept_in_a_class", kept)
    assert all(way(kept) is kept for way in (copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))))
    assert repr(kept) == f"<function kept_in_a_class of {__name__}>"
    assert (kept.__name__, kept.__qualname__, kept.__module__) == ("kept_in_a_class", "kept_in_a_class", __name__)
    assert kept.__doc__ == "Take part in a class, as a C function may." and inspect.isroutine(kept)
    assert str(inspect.signature(kept)) == "() -> 'None'"
    assert typing.get_type_hints(kept) == {"return": type(None)}
    wrapped = functools.wraps(kept)(lambda: kept())
    assert (wrapped.__name__, wrapped.__module__, wrapped.__doc__) == (kept.__name__, kept.__module__, kept.__doc__)
    assert weakref.ref(kept)() is kept


@pytest.mark.parametrize("autospec", [False, True])
def test_tests_replace_it_by_a_mock(autospec: bool) -> None:
    with mock.patch(f"{__name__}.kept", autospec=autospec) as replaced:
        kept()
        assert replaced.mock_calls == [mock.call()]
        if autospec:
            with pytest.raises(TypeError, match="too many positional arguments"):
                kept(1)


def test_a_compiled_function_is_none_that_needs_it() -> None:
    assert builtin_function(len) is len
