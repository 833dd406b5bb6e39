"""Modules of gevent that are faces of Dhaga's: each shows all names of the standard one."""

from __future__ import annotations

import copy
import sys
from importlib import import_module

import pytest

import dhaga.socket
from dhaga.compat import gevent
from dhaga.compat.gevent import local, monkey, signal, socket, subprocess
from dhaga.compat.gevent import time as gevent_time


@pytest.mark.parametrize("name", ["select", "selectors", "socket", "ssl", "subprocess", "thread", "threading", "time"])
def test_each_shows_what_dhagas_has(name: str) -> None:
    face, ours = import_module(f"dhaga.compat.gevent.{name}"), import_module(f"dhaga.{name}")
    assert {each for each in dir(ours) if not each.startswith("_")} <= set(face.__all__)
    others = {each for each in dir(ours) if not each.startswith("_")} - {"Popen"}
    # gevent's get_ident takes a greenlet as well, and its SocketType is the class of its sockets.
    others -= {"get_ident", "SocketType"}
    assert all(getattr(face, each) is getattr(ours, each) for each in others)


def test_what_parks_is_dhagas_and_the_rest_the_standards() -> None:
    assert socket.socket is dhaga.socket.socket and socket.AF_INET == dhaga.socket.AF_INET
    assert gevent_time.sleep is dhaga.time.sleep
    assert issubclass(local.local, dhaga.threading.local) and signal.signal is dhaga.signal.signal
    with pytest.raises(NotImplementedError, match="kill the greenlet"):
        socket.cancel_wait(None)


def test_the_patch_is_asked_by_gevents_names() -> None:
    assert not monkey.is_anything_patched() and not monkey.is_module_patched("socket")
    assert not monkey.is_object_patched("socket", "socket")
    assert monkey.get_original("time", ["sleep"]) == [monkey.get_original("time", "sleep")]
    with pytest.raises(NotImplementedError, match=r"dhaga\.monkey"):
        monkey.patch_module(None)


class Mine(local.local):
    def __init__(self, start: int) -> None:
        self.start = start


def test_a_copy_of_a_local_has_the_callers_attributes() -> None:
    original = Mine(5)
    original.shared = [1]
    double = copy.copy(original)
    original.start = 6
    assert (double.start, double.shared) == (5, [1]) and double.shared is original.shared
    assert gevent.spawn(lambda: (double.start, hasattr(double, "shared"))).get() == (5, False)


def test_the_locals_of_a_greenlet_are_listed() -> None:
    def use() -> tuple[object, object]:
        own = local.local()
        own.x = 1
        return local.all_local_dicts_for_greenlet(gevent.getcurrent()), [((local.local, id(own)), {"x": 1})]

    found, expected = gevent.spawn(use).get()
    assert found == expected


def test_a_wait_for_a_watcher_takes_a_timeout() -> None:
    with gevent.get_hub().loop.timer(20) as timer, pytest.raises(TimeoutError):
        socket.wait(timer, timeout=0.01)
    with pytest.raises(KeyError):
        socket.wait(gevent.get_hub().loop.timer(20), timeout=0.01, timeout_exc=KeyError("mine"))
    socket.wait(gevent.get_hub().loop.timer(0), timeout=20)


def test_the_end_of_a_child_may_be_waited_for_among_others() -> None:
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    never = gevent.spawn(gevent.sleep, 100)
    assert gevent.wait([never, child], count=1, timeout=20) == [child] and child.returncode == 3
    never.kill()
    forgotten = subprocess.Popen([sys.executable, "-c", ""])
    seen: list[object] = []
    forgotten.rawlink(seen.append)
    forgotten.unlink(seen.append)
    assert forgotten.wait() == 0
    gevent.sleep(0)
    assert seen == []


def test_a_wait_for_an_fd_with_a_negative_timeout_ends_at_once() -> None:
    left, right = socket.socketpair()
    with left, right, pytest.raises(TimeoutError):
        socket.wait_read(left.fileno(), timeout=-1)
