"""Proxies of pyzmq: ``proxy`` is a loop that parks; ``proxy_steerable`` and ``monitored_queue`` use an OS thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import zmq
from zmq import Again
from zmq.backend import cython

from ..._kernel.wait.current import parking_waiter
from ..._workers.offload import shared
from ._poll import zmq_poll
from ._socket import EVENTS, IN, NOW, OUT, get

T = TypeVar("T")

BURST = 1000
"""Number of messages that a proxy forwards before it tries the other direction, like libzmq's ``proxy_burst_size``."""

standard_proxy = zmq.proxy


@wraps(standard_proxy)
def proxy(frontend: Any, backend: Any, capture: Any = None) -> None:
    """Forward messages both ways until the context ends. Parks: ``zmq.poll fd N, …``. Raises: ContextTerminated.

    A cancel ends the proxy between two messages. If the caller is a plain OS thread, call libzmq's own proxy.
    """
    if parking_waiter() is None:
        standard_proxy(frontend, backend, capture)
        return
    flows = [(frontend, backend), (backend, frontend)] if frontend is not backend else [(frontend, backend)]
    while True:
        wanted: dict[Any, int] = {}
        for source, sink in flows:
            if not get(source, EVENTS) & IN:
                wanted[source] = wanted.get(source, 0) | IN
            elif not get(sink, EVENTS) & OUT:
                wanted[sink] = wanted.get(sink, 0) | OUT
            else:
                forward(source, sink, capture)
                wanted.clear()
                break
        if wanted:
            zmq_poll(list(wanted.items()))
        flows.reverse()


def forward(source: Any, sink: Any, capture: Any) -> None:
    """Forward received messages, up to a burst, while the sink has room."""
    for _ in range(BURST):
        try:
            message = source.recv_multipart(NOW, copy=False)
        except Again:
            return
        if capture is not None:
            capture.send_multipart(message)
        sink.send_multipart(message)
        if not get(sink, EVENTS) & OUT:
            return


def in_os_thread(standard: Callable[..., T]) -> Callable[..., T]:
    """Return a function that parks while an OS thread runs ``standard``. A cancel stays pending meanwhile."""

    @wraps(standard)
    def call(*args: Any, **options: Any) -> T:
        return shared.finish(standard, *args, **options)

    return call


FUNCTIONS: list[tuple[Any, Any]] = [(standard_proxy, proxy)]
for name in ("monitored_queue", "proxy_steerable"):
    standard = getattr(cython, name, None)
    if standard is not None:
        FUNCTIONS.append((standard, in_os_thread(standard)))
