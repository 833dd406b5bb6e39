"""The tested server: it answers at once, on a separate CPU, and uses very little CPU time.

`python -m benchmarks.load_testers.server [CPU]` prints its port, and serves until it is killed.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from benchmarks.machine import raise_file_limit

PAGE = b"hello, world\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)
END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """A connection that gives the same answer to each request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport for the answers."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer. The testers send each request in one piece."""
        self.transport.write(ANSWER * data.count(END))


async def serve() -> None:
    """Serve for ever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def loop_factory() -> asyncio.AbstractEventLoop:
    """Return a new loop: uvloop's, if it is installed, else asyncio's."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


@contextmanager
def serving(cpu: int | None) -> Iterator[str]:
    """Run the server in a new process, and yield its URL. Raises: RuntimeError."""
    command = [sys.executable, "-m", "benchmarks.load_testers.server", *([] if cpu is None else [str(cpu)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError("the server that is to be tested has not come up")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.sched_setaffinity(0, {int(sys.argv[1])})
    raise_file_limit()
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve())
