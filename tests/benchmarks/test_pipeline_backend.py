"""The backend of `benchmarks.pipeline`, in C and in Python, and the clients that call it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from benchmarks.machine import compiler
from benchmarks.pipeline import backend as backends
from benchmarks.pipeline.asyncio_client import AsyncBackendClient
from benchmarks.pipeline.backend import Backend, answering
from benchmarks.pipeline.client import REQUEST, BackendClient, connected
from dhaga import socket as parking

pytestmark = pytest.mark.once

DELAY = 100.0  # ms


@pytest.fixture(params=["C", "Python"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    if request.param == "Python":
        monkeypatch.setattr(backends, "compiler", lambda: None)
    elif not compiler():
        pytest.skip("no compiler")
    with answering(DELAY) as found:
        yield found


@pytest.fixture
def sock(backend: Backend) -> Iterator[socket.socket]:
    with connected(socket, backend.port) as sock:
        yield sock


def received(sock: socket.socket, answers: int) -> list[bytes]:
    """Return the bodies of so many answers."""
    data = b""
    while data.count(b"\n\r\n") < answers or not data.endswith(b"\n"):
        data += sock.recv(65536)
    return [head.partition(b"\r\n\r\n")[2] for head in data.split(b"HTTP/1.1 200 OK\r\n")[1:]]


def test_each_call_is_answered_after_the_delay_with_its_number(sock: socket.socket) -> None:
    began = time.monotonic()
    sock.sendall(REQUEST)
    assert received(sock, 1) == [b"0000000001\n"]
    assert time.monotonic() - began >= DELAY / 1e3


def test_who_leaves_before_the_answer_is_counted_and_harms_nobody(backend: Backend) -> None:
    with connected(socket, backend.port) as gone:
        gone.sendall(REQUEST)
        time.sleep(0.01)
    with connected(socket, backend.port) as sock:  # likely on the other's number
        sock.sendall(REQUEST)
        assert received(sock, 1) == [b"0000000002\n"]
    assert backend.calls() == 3


# ---- clients


class Script:
    """A socket, and the module it comes from, that gives what it is told to; `sent` counts."""

    IPPROTO_TCP = TCP_NODELAY = 1

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.opened = self.sent = self.closed = 0

    def create_connection(self, address: Any) -> Script:
        self.opened += 1
        return self

    def setsockopt(self, *option: int) -> None: ...

    def sendall(self, data: bytes) -> None:
        assert data == REQUEST
        self.sent += 1

    def recv(self, size: int) -> bytes:
        return self.pieces.pop(0)

    def close(self) -> None:
        self.closed += 1


def test_dhagas_call_at_once_each_over_a_connection_of_its_own(backend: Backend) -> None:
    calls = BackendClient(parking, backend.port)
    answers = [dhaga.result() for dhaga in [dhaga.spawn(calls.call) for _ in range(20)]]
    assert sorted(map(int, answers)) == list(range(1, 21))
    assert len(calls.free) == 20  # no one was free before the last had begun: they have not waited for each other
    assert int(calls.call()) == 21
    assert len(calls.free) == 20
    for connection in calls.free:
        connection.sock.close()


async def gathered(calls: AsyncBackendClient, count: int) -> list[int]:
    answers = await asyncio.gather(*(calls.call() for _ in range(count)))
    return sorted(map(int, answers))


def test_coroutines_call_at_once_each_over_a_connection_of_its_own(backend: Backend) -> None:
    async def scenario() -> None:
        calls = AsyncBackendClient(backend.port)
        assert await gathered(calls, 20) == list(range(1, 21))
        assert await gathered(calls, 1) == [21]
        assert len(calls.free) == 20
        waiting = asyncio.create_task(calls.call())
        await asyncio.sleep(DELAY / 4e3)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert len(calls.free) == 19
        for channel in calls.free:
            channel.transport.close()
        await asyncio.sleep(0)

    asyncio.run(scenario())
