"""A gRPC server in a process of its own: ``python tests/integrations/grpcs.py``, patched or not. It prints its port."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

TOGETHER = 40
"""So many calls of ``gather`` are answered at once."""

PATIENCE = 60.0
"""Seconds that a question waits for its answer to become true."""

gathered = threading.Barrier(TOGETHER)
changed = threading.Condition()
under_way: set[bytes] = set()
"""The requests that ``hang`` has received, and whose callers have not left."""


def echo(request: bytes, context: Any) -> bytes:
    return request


def gather(request: bytes, context: Any) -> bytes:
    gathered.wait(PATIENCE)
    return request


def hang(request: bytes, context: Any) -> bytes:
    """Answer only once the caller has left."""
    ended = threading.Event()
    with changed:
        under_way.add(request)
        changed.notify_all()
    if context.add_callback(ended.set):
        ended.wait()
    with changed:
        under_way.discard(request)
        changed.notify_all()
    return b"late"


def came(request: bytes, context: Any) -> bytes:
    """Wait for this call of ``hang`` to arrive."""
    with changed:
        return b"came" if changed.wait_for(lambda: request in under_way, PATIENCE) else b"never"


def left(request: bytes, context: Any) -> bytes:
    """Wait for the caller of this call of ``hang`` to leave."""
    with changed:
        return b"left" if changed.wait_for(lambda: request not in under_way, PATIENCE) else b"never"


def fail(request: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "nothing there")
    raise AssertionError


def whoami(request: bytes, context: Any) -> bytes:
    return dict(context.invocation_metadata()).get("user", "none").encode()


def count(request: bytes, context: Any) -> Iterator[bytes]:
    for number in range(int(request)):
        yield b"%d" % number


def total(requests: Iterator[bytes], context: Any) -> bytes:
    return b"%d" % sum(map(int, requests))


def chat(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for request in requests:
        yield request + b"!"


HANDLERS = {
    **{
        each.__name__: grpc.unary_unary_rpc_method_handler(each)
        for each in (came, echo, gather, hang, left, fail, whoami)
    },
    "count": grpc.unary_stream_rpc_method_handler(count),
    "total": grpc.stream_unary_rpc_method_handler(total),
    "chat": grpc.stream_stream_rpc_method_handler(chat),
}


class Service(grpc.GenericRpcHandler):
    def service(self, details: Any) -> Any:
        return HANDLERS.get(details.method.rpartition("/")[2])


def main() -> None:
    server = grpc.server(ThreadPoolExecutor(TOGETHER + 10))
    server.add_generic_rpc_handlers([Service()])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0).wait()


if __name__ == "__main__":
    main()
