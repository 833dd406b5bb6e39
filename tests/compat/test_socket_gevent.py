"""Modules of gevent that are faces of Dhaga's: each shows all names of the standard one."""

from __future__ import annotations

from importlib import import_module

import pytest

import dhaga.socket
from dhaga.compat.gevent import local, monkey, signal, socket
from dhaga.compat.gevent import time as gevent_time


@pytest.mark.parametrize("name", ["select", "selectors", "socket", "ssl", "subprocess", "thread", "threading", "time"])
def test_each_shows_what_dhagas_has(name: str) -> None:
    face, ours = import_module(f"dhaga.compat.gevent.{name}"), import_module(f"dhaga.{name}")
    assert {each for each in dir(ours) if not each.startswith("_")} <= set(face.__all__)
    assert all(getattr(face, each) is getattr(ours, each) for each in dir(ours) if not each.startswith("_"))


def test_what_parks_is_dhagas_and_the_rest_the_standards() -> None:
    assert socket.socket is dhaga.socket.socket and socket.AF_INET == dhaga.socket.AF_INET
    assert gevent_time.sleep is dhaga.time.sleep
    assert local.local is dhaga.threading.local and signal.signal is dhaga.signal.signal
    with pytest.raises(NotImplementedError, match="kill the greenlet"):
        socket.cancel_wait(None)


def test_the_patch_is_asked_by_gevents_names() -> None:
    assert not monkey.is_anything_patched() and not monkey.is_module_patched("socket")
    assert not monkey.is_object_patched("socket", "socket")
    assert monkey.get_original("time", ["sleep"]) == [monkey.get_original("time", "sleep")]
    with pytest.raises(NotImplementedError, match=r"dhaga\.monkey"):
        monkey.patch_module(None)
