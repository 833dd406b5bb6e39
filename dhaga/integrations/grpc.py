"""gRPC on dhagas: ``install()`` makes grpcio's clients and servers wait in OS threads while their callers park.

gRPC's core waits in C, for events of a completion queue. Three calls of ``cygrpc`` lead there: ``Channel``'s events
(streams, futures, connectivity), a blocking call's ``next_event``, and a server's ``CompletionQueue.poll``. A thread of
``pool`` makes each of these calls: one thread for each channel with streams or futures, for each server, and for each
blocking call under way. The rest of grpcio is Python that waits with ``threading``, which parks where it is patched; so
a server's handlers are dhagas. Cancelling a dhaga in a blocking call cancels the call.

Under ``dhaga.monkey.patch`` a post-import hook installs this. Channels and servers made earlier still block. In an
unpatched program use ``grpc.aio`` with ``dhaga.await_``.

Rejected: grpcio's own support of gevent (``grpc.experimental.gevent``), which also needs a thread pool. There, an error
that ends the wait of a blocking call (a timeout, a kill) frees its completion queue while a thread waits in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from grpc._cython import cygrpc  # the base of grpcio's channels and servers; not public

from .._kernel import hooks
from .._kernel.api import Timeout, spawn
from .._kernel.helper_threads import HelperThread
from .._kernel.process.shutdown import EXIT_SECONDS
from .._kernel.wait.current import parking_waiter
from .._kernel.weak_sets import members
from .._structured.shield import shield
from .._workers.offload import OffloadPool

__all__ = ["install", "uninstall"]

MAX_THREADS = 4096
"""Further blocking calls get their result late. Each of 1,000 waiting calls takes 64 KB; a future takes no thread."""

pool: OffloadPool = OffloadPool("grpc", MAX_THREADS)
pool.awaited_at_exit = False  # as with grpcio's own threads: an open channel does not delay the program's exit

channels: weakref.WeakSet[Any] = weakref.WeakSet()

former: dict[str, Any] = {}
"""The names of cygrpc that ``uninstall`` restores."""


def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call the core in an OS thread (``offload grpc``); inline in a plain thread and on an event loop."""
    return function(*args) if parking_waiter() is None else pool.offload(function, *args)


def shielded(function: Callable[..., Any], *args: Any) -> Any:
    """Call the core, shielded from cancels: the call may park for the lock of its channel."""
    if parking_waiter() is None:
        return function(*args)
    with shield():
        return function(*args)


class Call:
    """A call under way. Replaces cygrpc's ``IntegratedCall`` and ``SegregatedCall``, which C creates."""

    def __init__(self, call: Any) -> None:
        self.call = call

    def operate(self, *args: Any) -> Any:
        return shielded(self.call.operate, *args)

    def cancel(self, *args: Any) -> Any:
        return shielded(self.call.cancel, *args)

    def next_event(self) -> Any:
        """Return the next event. Parks: until there is one; an error that ends the park cancels the call."""
        if parking_waiter() is None:
            return self.call.next_event()
        waiter = spawn(
            pool.offload, self.call.next_event, daemon=True
        )  # runs to its end, so that the core frees its memory
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
    """The queue of a server, which waits for its events in an OS thread."""

    def poll(self, *args: Any, **options: Any) -> Any:
        return in_thread(partial(super().poll, *args, **options))


def close_channels() -> None:
    """Close open channels at interpreter exit: grpcio's finalizers would wait for its threads for ever."""
    with suppress(TimeoutError), Timeout(EXIT_SECONDS):
        for channel in members(channels):
            channel.close(cygrpc.StatusCode.cancelled, "the program ends")


def call_in_thread(callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Run a credentials callback in a plain OS thread. From: any thread, the core's included."""
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
    """Undo ``install``; channels and servers made meanwhile keep parking."""
    while former:
        setattr(cygrpc, *former.popitem())


hooks.before_cancel_at_exit.append(close_channels)
