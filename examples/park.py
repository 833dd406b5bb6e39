"""Park on things of your own: `python -m examples.park`.

All of Dhaga's waiting is one call, `dhaga.park(reason, undo)`, and one answer to it, `wake`. Here a dhaga waits for a
handler of the scheduler's IOLoop, and for a Future of asyncio, with nothing of Dhaga's in between.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from tornado.ioloop import IOLoop

import dhaga


def wait_for_pipe(fd: int) -> bytes:
    """Read from a pipe once it is readable. Parks: `pipe N`."""
    me = dhaga.current()
    ioloop = me.scheduler.ioloop

    def on_readable(fd: int, events: int) -> None:
        ioloop.remove_handler(fd)
        me.wake(os.read(fd, 100))

    ioloop.add_handler(fd, on_readable, IOLoop.READ)
    data: bytes = dhaga.park(f"pipe {fd}", undo=lambda: ioloop.remove_handler(fd))
    return data


def wait_for_future(future: asyncio.Future[Any]) -> Any:
    """Wait for a Future on the scheduler's loop, and return its result or raise its error. Parks: `future`."""
    me = dhaga.current()

    def on_done(future: asyncio.Future[Any]) -> None:
        me.wake()

    future.add_done_callback(on_done)
    dhaga.park("future", undo=lambda: future.remove_done_callback(on_done))
    return future.result()


def main() -> None:
    """Wait for both, while another dhaga writes and the loop's own timer fires."""
    argparse.ArgumentParser(
        prog="python -m examples.park", description="Park on a pipe that becomes readable, and on a Future of asyncio."
    ).parse_args()
    reader, writer = os.pipe()
    waiting = dhaga.spawn(wait_for_pipe, reader)
    dhaga.spawn(os.write, writer, b"through a pipe")
    print(waiting.result().decode())
    os.close(reader)
    os.close(writer)

    def ask_the_loop() -> Any:
        loop = dhaga.current().scheduler.loop
        future = loop.create_future()
        loop.call_later(0.05, future.set_result, "from a Future")
        return wait_for_future(future)

    print(dhaga.spawn(ask_the_loop).result())


if __name__ == "__main__":
    main()
