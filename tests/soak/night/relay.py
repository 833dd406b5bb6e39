"""A relay before a service: a restart of the service, as its clients see one, without touching the service itself."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from urllib.parse import urlsplit

AFTERMATH = 30.0
"""Seconds after an outage in which clients may miss the service: psycopg's pool tries again after 1, 2, 4, 8 s."""

NO_LINGER = struct.pack("ii", 1, 0)
CHUNK = 65_536


class Relay:
    """Listens at a port of its own and passes bytes on, in an OS thread with an event loop.

    ``outages``: when it was away, in monotonic seconds; the end of one that lasts is infinite.
    """

    def __init__(self, url: str, name: str) -> None:
        self.parts = urlsplit(url)
        self.name = name
        self.outages: list[tuple[float, float]] = []
        self.streams: set[asyncio.StreamWriter] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name=f"relay of {name}", daemon=True)

    @property
    def url(self) -> str:
        """The service's address, by way of this relay."""
        user, at, _ = self.parts.netloc.rpartition("@")
        return self.parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}").geturl()

    def start(self) -> None:
        self.thread.start()
        self._run(self._listen())

    def stop(self) -> None:
        self._run(self._leave())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def restart(self, seconds: float) -> None:
        """Reset all connections, and refuse new ones for so long. Blocks until the service is back."""
        began = time.monotonic()
        self.outages.append((began, float("inf")))
        self._run(self._leave())
        time.sleep(seconds)
        self._run(self._listen())
        self.outages[-1] = (began, time.monotonic())

    def was_away(self, since: float) -> bool:
        """Tell whether a request that was under way from then till now may have missed the service."""
        return any(end + AFTERMATH >= since for _, end in self.outages)

    def _run(self, main: object) -> None:
        asyncio.run_coroutine_threadsafe(main, self.loop).result(60)

    async def _listen(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _leave(self) -> None:
        self.server.close()
        for stream in list(self.streams):
            sock = stream.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            stream.transport.abort()
        while self.tasks:
            await asyncio.wait(self.tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        ends = [writer]
        self.streams.add(writer)
        try:
            back, forth = await asyncio.open_connection(self.parts.hostname, self.parts.port)
            ends.append(forth)
            self.streams.add(forth)
            await asyncio.gather(self._pass(reader, forth), self._pass(back, writer))
        except OSError:  # one end has reset it, or the service itself is away
            pass
        finally:
            for end in ends:
                end.transport.abort()
                self.streams.discard(end)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof() and not writer.transport.is_closing():
            writer.write_eof()
