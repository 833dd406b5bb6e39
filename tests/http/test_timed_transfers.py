"""The transfers of a connection: a time limit for each piece, and nothing after the first failure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server.timed_transfers import WRITE_BYTES, Transfers
from dhaga.http.limits import Limits, Refusal


class Timer:
    """Stands for the idle timer, and records how it was set."""

    def __init__(self) -> None:
        self.armed: list[float | None] = []
        self.deadline = 0.0

    def arm(self, seconds: float | None) -> None:
        self.armed.append(seconds)


def transfers(sock: socket.socket, **limits: Any) -> tuple[Transfers, Timer]:
    server: Any = SimpleNamespace(limits=Limits(**limits), server_fields=None)
    made = Transfers(server, sock)
    timer: Any = Timer()
    made.idle_timer = made.send_timer = timer
    return made, timer


def test_each_piece_of_a_large_response_has_the_write_timeout_for_itself() -> None:
    here, there = socket.socketpair()
    with here, there:
        sender, timer = transfers(here, write_timeout=7)
        data = b"a" * (2 * WRITE_BYTES + 1)
        reader = dhaga.spawn(there.recv, len(data), socket.MSG_WAITALL)
        sender.send(data)
        assert reader.result() == data
        assert timer.armed == [7, 7, 7]
        assert timer.deadline == float("inf")
        sender.parser.close()


def test_all_transfers_fail_once_one_has_failed() -> None:
    here, there = socket.socketpair()
    with here:
        there.close()
        sender, timer = transfers(here)
        with pytest.raises(OSError, match="Broken pipe"):
            sender.send(b"a")
        assert sender.client_gone
        for transfer in (lambda: sender.send(b"b"), sender.receive_body):
            with pytest.raises(OSError, match="has disconnected"):
                transfer()
        assert timer.armed == [Limits().write_timeout]
        sender.parser.close()


@pytest.mark.parametrize("as_file", [False, True])
def test_a_send_that_is_cancelled_is_the_last_one(as_file: bool, tmp_path: Path) -> None:
    """The client would read later bytes as the rest of the cancelled send."""
    here, there = socket.socketpair()
    with here, there:
        sender, _ = transfers(here)
        data = b"a" * 10_000_000
        path = tmp_path / "file"
        path.write_bytes(data)
        with path.open("rb") as file, pytest.raises(TimeoutError, match="not done within"), dhaga.Timeout(0.01):
            sender.send_file(file, 0, len(data)) if as_file else sender.send(data)
        assert sender.closing and not sender.client_gone  # if the app fails now, its error is logged
        with pytest.raises(BrokenPipeError):
            sender.send(b"b")
        assert sender.client_gone
        sender.parser.close()


def test_a_body_that_comes_too_slowly_is_refused_at_each_later_read() -> None:
    here, there = socket.socketpair()
    with here, there:
        receiver, _ = transfers(here)
        receiver.parser.begin_body(3)
        here.settimeout(1e-9)
        for _ in range(2):
            with pytest.raises(Refusal, match="the body came too slowly"):
                receiver.more_body()
        assert not receiver.client_gone
        receiver.parser.close()
