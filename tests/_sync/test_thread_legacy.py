"""Deprecated and private names of threading.Thread, as debuggers and monitors use them."""

from __future__ import annotations

import threading as standard
from collections.abc import Callable

import pytest

import dhaga
from dhaga import threading
from dhaga.testing import virtual_clock
from dhaga.threading import Thread


def test_the_deprecated_names_work_and_warn() -> None:
    thread, event, condition = Thread(name="one"), threading.Event(), threading.Condition()

    def warned(use: Callable[[], object], instead: str) -> object:
        with pytest.warns(DeprecationWarning, match=instead) as told:
            value = use()
        assert told[0].filename == __file__
        return value

    assert warned(lambda: thread.getName(), "get the name attribute") == "one"
    warned(lambda: thread.setName("two"), "set the name attribute")
    warned(lambda: thread.setDaemon(True), "set the daemon attribute")
    assert warned(lambda: thread.isDaemon(), "get the daemon attribute") is True and thread.name == "two"
    assert warned(lambda: event.isSet(), r"use is_set\(\)") is False
    with condition:
        warned(lambda: condition.notifyAll(), r"use notify_all\(\)")
    assert warned(lambda: threading.currentThread(), r"use current_thread\(\)") is threading.main_thread()
    assert warned(lambda: threading.activeCount(), r"use active_count\(\)") == 1


def test_private_names_tell_debuggers_and_monitors_the_state() -> None:
    with virtual_clock():
        thread = Thread(target=dhaga.sleep, args=(1,))
        started = thread._started
        assert not started.is_set() and not thread._is_stopped and thread._ident is thread._tstate_lock is None
        thread.start()
        assert started.is_set() and thread._started is started and thread._ident == thread.ident
        assert threading._active[thread.ident or 0] is thread and not thread._is_stopped and thread._initialized
        lock = thread._tstate_lock
        assert lock is not None and not lock.acquire(timeout=0) and lock is thread._tstate_lock
        waited_for = getattr(standard, "_shutdown_locks", {lock})
        assert lock in waited_for
        assert lock.acquire(timeout=5) and thread._is_stopped and thread._tstate_lock is None
        if waited_for != {lock}:
            assert lock not in waited_for
        assert thread.ident not in threading._active


def test_who_asks_for_a_dummy_of_its_own_may_delete_it() -> None:
    def deletes() -> tuple[Thread, bool]:
        me = threading.current_thread()
        listed = me in threading.enumerate()
        del threading._active[threading.get_ident()]
        return me, listed and me not in threading.enumerate()

    with virtual_clock():
        me, gone = dhaga.spawn(deletes).result()
        assert gone and isinstance(me, threading._DummyThread) and repr(me).startswith("<_DummyThread(dhaga-")
    del threading._active[me.ident]  # the standard's are still there


def test_the_main_thread_is_of_the_standards_kind() -> None:
    main = threading.main_thread()
    assert isinstance(main, threading._MainThread) and threading._active[standard.get_ident()] is main
    assert repr(main) == f"<_MainThread(MainThread, started {main.ident})>" == repr(standard.main_thread())
