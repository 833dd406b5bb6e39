"""The client of `calls.py` for coroutines: each connection a protocol, the cheapest form that asyncio has."""

import asyncio
from typing import cast

from benchmarks.pipelines.calls import REQUEST, Answer, BackendError


class Channel(Answer, asyncio.Protocol):
    """A connection that is kept, for one call at a time."""

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
        """Have the call under way raise an error, and later ones, too."""
        if not self.answered.done():
            self.answered.set_exception(error)
            self.answered.exception()  # there may be no call to hear of it

    async def call(self) -> bytes:
        """Ask, and return the body of the answer."""
        if self.transport.is_closing():
            raise BackendError("the backend has closed the connection")
        self.begin()
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(REQUEST)
        return await self.answered


class CoroutineCalls:
    """Calls of the backend, each over a connection that is free."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.free: list[Channel] = []

    async def connect(self) -> Channel:
        """Open a connection."""
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Channel, "127.0.0.1", self.port))[1]

    async def call(self) -> bytes:
        """Make one call. Raises: OSError; then the connection is closed."""
        channel = self.free.pop() if self.free else await self.connect()
        try:
            answer = await channel.call()
        except BaseException:
            channel.transport.close()
            raise
        self.free.append(channel)
        return answer
