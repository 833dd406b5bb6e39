"""The client of `client.py` for coroutines. Each connection is a protocol, which is asyncio's cheapest form."""

import asyncio
from typing import cast

from benchmarks.pipeline.client import REQUEST, Answer, BackendError


class BackendProtocol(Answer, asyncio.Protocol):
    """A kept connection, for one call at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        try:
            self.feed(data)
        except BackendError as error:
            self.fail(error)
        else:
            if self.complete and not self.answered.done():
                self.answered.set_result(self.body)

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(error or BackendError("the backend has closed the connection"))

    def fail(self, error: Exception) -> None:
        """Let the current call and later calls fail with an error."""
        if not self.answered.done():
            self.answered.set_exception(error)
            self.answered.exception()  # mark the error as retrieved, because there may be no call that gets it

    async def call(self) -> bytes:
        """Send a request, and return the body of the answer."""
        if self.transport.is_closing():
            raise BackendError("the backend has closed the connection")
        self.begin()
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(REQUEST)
        return await self.answered


class AsyncBackendClient:
    """A client that makes each call to the backend over a free connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.free: list[BackendProtocol] = []

    async def connect(self) -> BackendProtocol:
        """Open a connection."""
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(BackendProtocol, "127.0.0.1", self.port))[1]

    async def call(self) -> bytes:
        """Make one call. Raises: OSError, after closing the connection."""
        channel = self.free.pop() if self.free else await self.connect()
        try:
            answer = await channel.call()
        except BaseException:
            channel.transport.close()
            raise
        self.free.append(channel)
        return answer
