"""The functions of windows.py. They need nothing that other systems lack, so the tests run on each: sockets are fds."""

from __future__ import annotations

import selectors
import signal
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

import dhaga.os
import dhaga.signal
from dhaga._kernel.platform import windows
from dhaga._kernel.platform.system import system

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_poll_finds_what_select_does(pair: Pair) -> None:
    one, other = pair
    poll = windows.poll()
    poll.register(one, windows.POLLIN)
    assert poll.poll(0) == []
    other.send(b"x")
    assert poll.poll() == [(one.fileno(), windows.POLLIN)]
    poll.register(one)
    assert poll.poll(1000) == [(one.fileno(), windows.POLLIN | windows.POLLOUT)]


def test_poll_without_sockets_waits_as_long_as_it_is_told() -> None:
    assert windows.poll().poll(0.1) == []


def test_the_selector_outlives_a_patch_of_select(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair
    monkeypatch.delattr("select.select")
    with windows.Selector() as selector:
        key = selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
        assert selector.select(0) == [(key, selectors.EVENT_WRITE)]
        other.send(b"x")
        assert selector.select(0) == [(key, selectors.EVENT_READ | selectors.EVENT_WRITE)]
        assert selector.fileno() == -1


def test_a_wakeup_pipe_ends_a_poll_until_it_is_closed() -> None:
    reader, writer = windows.open_wakeup_pipe()
    poll = windows.poll()
    poll.register(reader, windows.POLLIN)
    assert poll.poll(0) == []
    assert windows.write_wakeup(writer, b"!") == 1
    assert poll.poll(0) == [(reader, windows.POLLIN)]
    windows.close_wakeup(reader)
    with pytest.raises(OSError):
        windows.duplicate(reader)
    windows.close_wakeup(writer)


def test_a_duplicate_is_another_number_of_one_socket(pair: Pair) -> None:
    one, other = pair
    duplicate = windows.duplicate(one.fileno())
    assert duplicate != one.fileno() and not windows.has_input(duplicate)
    other.send(b"x")
    assert windows.has_input(duplicate) and one.recv(1) == b"x"
    windows.close_duplicate(duplicate)
    assert not windows.has_input(one.fileno())


def test_a_limit_is_of_milliseconds_and_zero_is_none() -> None:
    assert windows.seconds_of_limit(struct.pack("I", 2500)) == 2.5
    assert windows.seconds_of_limit(bytes(windows.LIMIT_SIZE)) is None


def test_a_signal_that_is_sent_again_calls_its_handler_in_the_main_thread() -> None:
    called: list[threading.Thread] = []
    former = signal.signal(signal.SIGINT, lambda *_: called.append(threading.current_thread()))
    try:
        sender = threading.Thread(target=windows.send_signal, args=(0, signal.SIGINT))
        sender.start()
        sender.join()
        assert called == [threading.main_thread()]
    finally:
        signal.signal(signal.SIGINT, former)


def test_no_fork_calls_what_is_registered_and_no_thread_has_a_mask() -> None:
    windows.register_at_fork(before=pytest.fail, after_in_parent=pytest.fail, after_in_child=pytest.fail)
    windows.block_signals({signal.SIGINT})
    windows.set_signal_mask({signal.SIGINT})
    assert windows.signal_mask() == frozenset()


def test_what_is_missing_says_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "INSTEAD", windows.INSTEAD)
    monkeypatch.delattr("os.RWF_NOWAIT", raising=False)
    monkeypatch.delattr("signal.SIGCHLD", raising=False)
    for module, name, instead in (
        (dhaga.os, "RWF_NOWAIT", "read the file with dhaga.open"),
        (dhaga.signal, "SIGCHLD", "wait for a process with dhaga.subprocess.Popen(...).wait()"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        missing = f"{module.__name__.removeprefix('dhaga.')}.{name}"
        assert str(caught.value) == f"{missing} does not exist on this platform: {instead}"
        assert not hasattr(module, name)


def test_what_is_missing_otherwise_is_the_standard_modules_error() -> None:
    with pytest.raises(AttributeError, match="module 'os' has no attribute 'wiat'"):
        dhaga.os.wiat


def test_no_number_of_an_os_thread_is_a_dhagas() -> None:
    assert windows.IDENTS_ABOVE > 0xFFFFFFFF
