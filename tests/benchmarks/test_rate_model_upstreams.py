"""Calls over real sockets: connections are used again, broken ones are not, and the upstreams end with their run."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from benchmarks.rate_model.clients import AsyncPool, Pool
from benchmarks.rate_model.run import Plan
from benchmarks.rate_model.runner import upstreams_of

pytestmark = pytest.mark.once
ANSWER = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 3\r\n\r\nyes"


class Scripted:
    """A socket that receives what it is told to."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.sent: list[bytes] = []
        self.closed = False

    def connect(self, address: tuple[str, int]) -> None:
        assert address == ("127.0.0.1", 1)

    def sendall(self, data: bytes) -> None:
        self.sent.append(data)

    def recv(self, size: int) -> bytes:
        return self.pieces.pop(0)

    def close(self) -> None:
        self.closed = True


def pool_of(*sockets: Scripted) -> Pool:
    return Pool(iter(sockets).__next__, port=1)


@pytest.mark.parametrize("pieces", [[b""], [ANSWER[:20], b""], [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"]])
def test_a_connection_that_breaks_is_closed_and_not_used_again(pieces: list[bytes]) -> None:
    broken, good = Scripted(*pieces), Scripted(ANSWER)
    pool = pool_of(broken, good)
    with pytest.raises(ConnectionError):
        pool.call()
    assert broken.closed and not pool.idle
    pool.call()
    assert pool.idle == [good]


def test_upstreams_answer_after_their_latency_and_end_with_their_run() -> None:
    with upstreams_of(Plan(1, 1, [0.0, 0.05]), real=True) as plan:
        assert len(set(plan.ports)) == 2
        pools = [Pool(socket.socket, port) for port in plan.ports]
        pools[0].call()
        began = time.monotonic()
        pools[1].call()
        assert time.monotonic() - began >= 0.05
        asyncio.run(asked_in_a_coroutine(plan.ports[0]))
        waiting = [pool.idle[0] for pool in pools]
    for sock in waiting:
        with sock:
            sock.settimeout(10)
            assert sock.recv(1) == b""  # the process behind it has ended
    with pytest.raises(ConnectionRefusedError):
        pools[0].connect()


async def asked_in_a_coroutine(port: int) -> None:
    pool = AsyncPool(asyncio.get_running_loop(), port)
    await pool.call()
    (sock,) = pool.idle
    await pool.call()
    assert pool.idle == [sock]
    sock.close()
