"""Upstreams with real sockets: HTTP/1.1 servers, each in its own process, which answer after their latency.

`python -m benchmarks.rate_model.upstreams SECONDS ...` starts all upstreams, prints their ports, and ends at the end of
its input.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"
GAP = b"\r\n\r\n"
BACKLOG = 4096


class Upstream(asyncio.Protocol):
    """One connection: each request is answered once the latency is over."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self.rest = (self.rest + data).split(GAP)
        for _ in requests:
            asyncio.get_running_loop().call_later(self.latency, self.transport.write, ANSWER)


async def _serve(listening: socket.socket, latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(latency), sock=listening, backlog=BACKLOG)
    await server.serve_forever()


def _be_one(listening: socket.socket, latency: float) -> None:
    """Serve until the input ends, because the parent process has ended in any way."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(listening, latency))


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(0)


def main() -> None:
    """Print the ports, and fork a process for each upstream."""
    latencies = list(map(float, sys.argv[1:]))
    sockets = [socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) for _ in latencies]
    print(json.dumps([each.getsockname()[1] for each in sockets]), flush=True)
    ours = 0
    for number in range(1, len(latencies)):
        if not os.fork():
            ours = number
            break
    for number, listening in enumerate(sockets):
        if number != ours:
            listening.close()  # a killed upstream's socket must not be open in another process
    _be_one(sockets[ours], latencies[ours])


if __name__ == "__main__":
    main()
