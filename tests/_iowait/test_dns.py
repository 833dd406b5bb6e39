"""Names are looked up in OS threads while other dhagas run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._iowait import dns
from dhaga._workers.offload import MAX_THREADS
from dhaga.testing import settle
from tests.kit.sockets import (
    LOCAL,
)


def test_a_look_up_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(*args: Any) -> list[Any]:
        assert gate.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", args[1] or 0))]

    monkeypatch.setattr(dns, "standard_getaddrinfo", slow)
    with socket.create_server(LOCAL) as listener:
        port = listener.getsockname()[1]
        look_up = dhaga.spawn(socket.getaddrinfo, "slow.example", 80)
        connects = dhaga.spawn(socket.create_connection, ("slow.example", port))
        with socket.socket() as sock:
            connects_too = dhaga.spawn(sock.connect, ("slow.example", port))
            for _ in range(3):
                dhaga.sleep(0.001)
            assert {d.state for d in (look_up, connects, connects_too)} == {"WAITING"}
            assert "offload" in repr(look_up)
            gate.set()
            assert look_up.result(30)[0][4] == ("127.0.0.1", 80)
            connects.result(30).close()
            connects_too.result(30)


def test_names_whose_server_does_not_answer_hold_up_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(dns, "standard_getaddrinfo", lambda *_: gate.wait(30) and [])
    look_ups = [dhaga.spawn(socket.getaddrinfo, f"{n}.example", 80) for n in range(2 * MAX_THREADS)]
    settle()
    assert dhaga.spawn(dhaga.offload, pow, 2, 3).result(30) == 8
    assert {each.state for each in look_ups} == {"WAITING"}
    gate.set()
    assert [each.result(30) for each in look_ups] == [[]] * len(look_ups)


def test_a_cancelled_look_up_lets_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(dns, "standard_getaddrinfo", lambda *_: gate.wait(30))
    d = dhaga.spawn(socket.getaddrinfo, "slow.example", 80)
    settle()
    d.cancel()
    with pytest.raises(dhaga.Cancelled):
        d.result(30)
    gate.set()


def test_numeric_hosts_are_answered_without_parking() -> None:
    async def main() -> None:
        assert socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)[0][4] == ("127.0.0.1", 80)
        assert socket.getaddrinfo(None, 80) and socket.gethostbyname("127.0.0.1") == "127.0.0.1"
        flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
        assert socket.getnameinfo(("127.0.0.1", 80), flags) == ("127.0.0.1", "80")
        with pytest.raises(dhaga.ParkError):
            socket.getaddrinfo("localhost", 80)

    asyncio.run(main())


def test_localhost_is_found() -> None:
    assert socket.gethostbyname("localhost") == "127.0.0.1"
