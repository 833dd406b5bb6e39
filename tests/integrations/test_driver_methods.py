"""Methods that an integration replaces: they are put back, and those of C run in an OS thread while a dhaga waits."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dhaga
from dhaga.integrations._driver_methods import Methods, connect_by, offloaded


class Base:
    def ping(self) -> int:
        return threading.get_native_id()


class Connection(Base):
    def __init__(self, *args: Any, **options: Any) -> None:
        self.given = args, options
        self.thread = threading.get_native_id()

    def kill(self) -> None:
        raise LookupError("gone")


def test_what_was_replaced_is_put_back_and_what_was_inherited_is_so_again() -> None:
    former = dict(vars(Connection))
    methods = Methods({(Connection, name): offloaded(getattr(Connection, name)) for name in ("ping", "kill")})
    for _ in range(2):
        methods.install()
        methods.install()  # again: what it would put back are the standard ones
        assert vars(Connection)["ping"] is methods.methods[Connection, "ping"]
        methods.uninstall()
        methods.uninstall()
        assert dict(vars(Connection)) == former


def test_a_dhaga_calls_in_an_os_thread_and_a_plain_thread_calls_itself() -> None:
    ping = offloaded(Connection.ping)
    here = threading.get_native_id()

    def call() -> tuple[int, int]:
        connection: Any = Connection.__new__(Connection)
        connect_by(Connection.__init__, connection, "host", read_timeout=2)
        assert connection.given == (("host",), {"read_timeout": 2})
        assert connection._dhaga_read_timeout == 2
        return ping(connection), connection.thread

    assert here not in dhaga.spawn(call).result()
    found: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    assert found == [(thread.native_id, thread.native_id)]


def test_no_read_timeout_is_none() -> None:
    connection: Any = Connection.__new__(Connection)
    connect_by(Connection.__init__, connection, read_timeout=0)
    assert connection._dhaga_read_timeout is None


def test_errors_reach_the_caller_and_a_cancel_waits_for_the_call() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def wait_in_c(self: Any) -> None:
        begun.set()
        may_end.wait()
        ended.set()

    with pytest.raises(LookupError, match="gone"):
        dhaga.spawn(offloaded(Connection.kill), None).result()
    call = dhaga.spawn(offloaded(wait_in_c), None)
    while not begun.is_set():
        dhaga.sleep(0.001)
    call.cancel()
    dhaga.sleep(0)
    assert call.is_alive()
    may_end.set()
    call.join()
    assert ended.is_set()
