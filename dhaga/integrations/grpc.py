"""gRPC on dhagas: ``install()`` makes grpcio's clients and servers wait in OS threads while their callers park.

gRPC's core waits in C for events of a completion queue. Three kinds of calls to ``cygrpc`` wait: calls for a
``Channel``'s events (streams, futures, connectivity), a blocking call's ``next_event``, and a server's
``CompletionQueue.poll``. Threads of ``pool`` make these calls: one thread for each channel with streams or futures, for
each server, and for each blocking call in progress. The rest of grpcio is Python code that waits with ``threading``,
which parks if it is patched. So a server's handlers run in dhagas. A cancel of a dhaga in a blocking call also cancels
the call.

In a patched program, a post-import hook calls ``install()``. Channels and servers created before this call still block.
In an unpatched program, use ``grpc.aio`` with ``dhaga.await_``.

Rejected: grpcio's own support of gevent (``grpc.experimental.gevent``), which also needs a thread pool. With that
support, an error that ends the wait of a blocking call (a timeout, a kill) would free the completion queue while a
thread waits in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from grpc._cython import cygrpc  # the base of grpcio's channels and servers; not public

from .._kernel import hooks
from .._kernel.api import spawn
from .._kernel.helper_threads import HelperThread
from .._kernel.process.process_exit import EXIT_SECONDS
from .._kernel.timeout import Timeout
from .._kernel.wait.current import parking_waiter
from .._kernel.weak_sets import members
from .._structured.shield import shield
from .._workers.offload import OffloadPool

__all__ = ["install", "uninstall"]

MAX_THREADS = 4096
"""Maximum number of OS threads. If all of them wait, further blocking calls get their results late.

A waiting call takes 64 KB of memory (measured with 1,000 calls). A future takes no thread of its own.
"""

pool: OffloadPool = OffloadPool("grpc", MAX_THREADS)
pool.awaited_at_exit = False  # like grpcio's own threads, these threads do not delay the program's exit

channels: weakref.WeakSet[Any] = weakref.WeakSet()

former: dict[str, Any] = {}
"""The names of cygrpc that ``uninstall`` restores."""


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call the core in an OS thread (``offload grpc``). In a plain thread or on an event loop, call it directly."""
    return function(*args) if parking_waiter() is None else pool.offload(function, *args)


def shielded(function: Callable[..., Any], *args: Any) -> Any:
    """Call the core, shielded from cancels, because the call may park for the channel's lock."""
    if parking_waiter() is None:
        return function(*args)
    with shield():
        return function(*args)


class Call:
    """A call in progress. It wraps cygrpc's ``IntegratedCall`` or ``SegregatedCall``, which C code creates."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def operate(self, *args: Any) -> Any:
        return shielded(self.call.operate, *args)

    def cancel(self, *args: Any) -> Any:
        return shielded(self.call.cancel, *args)

    def next_event(self) -> Any:
        """Return the next event. Parks: until the event comes. An error that ends the park cancels the call."""
        if parking_waiter() is None:
            return self.call.next_event()
        waiter = spawn(
            pool.offload, self.call.next_event, daemon=True
        )  # this dhaga outlives a cancelled caller, because the core frees the call's memory only at the call's end
        try:
            return waiter.result()
        except BaseException:
            self.cancel(cygrpc.StatusCode.cancelled, "the caller was cancelled")
            raise


class Channel(cygrpc.Channel):  # type: ignore[misc]  # untyped
    """A channel that waits for its events in OS threads."""

    def __init__(self, *_: Any) -> None:  # the arguments are for __new__
        channels.add(self)

    def next_call_event(self) -> Any:
        return in_thread(super().next_call_event)

    def watch_connectivity_state(self, *args: Any) -> Any:
        return in_thread(super().watch_connectivity_state, *args)

    def integrated_call(self, *args: Any) -> Call:
        return Call(shielded(super().integrated_call, *args))

    def segregated_call(self, *args: Any) -> Call:
        return Call(shielded(super().segregated_call, *args))


class CompletionQueue(cygrpc.CompletionQueue):  # type: ignore[misc]  # untyped
    """A server's completion queue that waits for its events in an OS thread."""

    def poll(self, *args: Any, **options: Any) -> Any:
        return in_thread(partial(super().poll, *args, **options))


def close_channels() -> None:
    """Close open channels at interpreter exit. Otherwise, finalizers would wait forever for grpcio's threads."""
    with suppress(TimeoutError), Timeout(EXIT_SECONDS):
        for channel in members(channels):
            channel.close(cygrpc.StatusCode.cancelled, "the program ends")


def call_in_thread(callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Run a credentials callback in a plain OS thread. From: any thread, including the core's."""
    HelperThread("dhaga-grpc", callback, args).start()


def install() -> None:
    """Make new channels and servers park their callers."""
    if not former:
        for name, ours in {
            "Channel": Channel,
            "CompletionQueue": CompletionQueue,
            "init_grpc_gevent": lambda: None,  # called by programs for gevent
        }.items():
            former[name] = getattr(cygrpc, name)
            setattr(cygrpc, name, ours)
        former["async_callback_func"] = cygrpc.async_callback_func
        cygrpc.set_async_callback_func(call_in_thread)


def uninstall() -> None:
    """Undo ``install``. Channels and servers that were created meanwhile still park their callers."""
    while former:
        setattr(cygrpc, *former.popitem())


hooks.before_cancel_at_exit.append(close_channels)
