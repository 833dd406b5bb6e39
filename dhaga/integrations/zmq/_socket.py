"""Sockets of pyzmq: ``send`` and ``recv`` park, and each call that consumes libzmq's signal wakes the other waiters.

A socket has one fd. libzmq signals the fd once for all events since its last check. Events are a message, room in a
pipe, or the end of the context. Any call on the socket may make libzmq check for events, and so consume the signal: a
``send`` may consume the signal that another dhaga's ``recv`` waits for. So a call first tries without waiting. If the
call would wait, it makes libzmq check, tries again, and parks for the fd only if the second try fails. The calls that
make libzmq check are ``send``, ``recv``, ``poll``, ``bind``, ``connect``, ``unbind``, ``disconnect`` and reading the
option EVENTS. Each of these calls, even a try before a park, wakes the socket's other waiters if there are events for
these waiters.
Rejected: parking until EVENTS contains POLLOUT. A ROUTER with ROUTER_MANDATORY always has POLLOUT, although a send to a
peer with a full pipe must wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import zmq
from zmq import Again, Socket, ZMQError

from ..._kernel.run.fd_watch import FdWatcher, FdWatchers
from ..._kernel.run.turn_budget import CALLS_PER_CHECK, waiter_that_is_due, yield_if_due
from ..._kernel.wait.current import parking_waiter
from ..._kernel.wait.waiter import Waiter

T = TypeVar("T")

# These are plain numbers, because an operation on pyzmq's enums takes as long as a send.
NOW, MORE, IN, OUT = int(zmq.DONTWAIT), int(zmq.SNDMORE), int(zmq.POLLIN), int(zmq.POLLOUT)
EVENTS, FD, RCVMORE = int(zmq.EVENTS), int(zmq.FD), int(zmq.RCVMORE)
RCVTIMEO, SNDTIMEO = int(zmq.RCVTIMEO), int(zmq.SNDTIMEO)

RETRY_SECONDS = 0.05
"""Seconds between two tries of a ROUTER's send with ROUTER_MANDATORY while another dhaga waits for the same socket.

The other dhaga may consume the signal for room in a full pipe, and EVENTS does not show the room.
"""

standard_send, standard_recv, standard_close = Socket.send, Socket.recv, Socket.close
standard_get: Callable[..., Any] = Socket.get


class SocketState:
    """The state of one socket: the waiters, each with the events that it waits for, and the watchers of the fd.

    ``more_to_send``: nonzero while only a part of a multipart message has been sent.
    ``calls_until_check``: see ``dhaga/_kernel/run/turn_budget.py``.
    """

    __slots__ = ("calls_until_check", "more_to_send", "waiters", "watchers")

    def __init__(self) -> None:
        self.calls_until_check = CALLS_PER_CHECK
        self.more_to_send = 0
        self.waiters: dict[Waiter, int] = {}
        self.watchers: FdWatchers | None = None


def state_of(socket: Any) -> SocketState:
    state: SocketState | None = socket.__dict__.get("_dhaga")
    return state if state is not None else socket.__dict__.setdefault("_dhaga", SocketState())


def watcher_of(socket: Any, me: Waiter) -> FdWatcher:
    """Return the watcher of the socket's fd for the scheduler of ``me``. Raises: ZMQError (ENOTSOCK) if closed."""
    state = state_of(socket)
    if state.watchers is None:
        state.watchers = FdWatchers(standard_get(socket, FD))
    try:
        watcher: Any = state.watchers.of(me)
    except OSError:
        raise ZMQError(zmq.ENOTSOCK) from None
    watcher.read_reason = f"zmq fd {watcher.fd}"
    return watcher  # type: ignore[no-any-return]


def wake_others(socket: Any) -> int:
    """If a socket has waiters, make libzmq check the socket for events, and wake the waiters for these events.

    From: each call that makes libzmq check. Returns: the events, or 0 without waiters. A caller that is about to park
    for one of these events must try again, because the check may have consumed the signal.
    """
    state = socket.__dict__.get("_dhaga")
    if state is None or not state.waiters:
        return 0
    try:
        events: int = standard_get(socket, EVENTS)
    except ZMQError:  # the socket is closed, or its context ends: each waiter's own call reports the error
        events = IN | OUT
    wake_for(state, events)
    return events


def wake_for(state: SocketState, events: int) -> None:
    """Wake the waiters for any of ``events``. A waiter whose call would still wait parks again."""
    for waiter, wanted in list(state.waiters.items()):
        if wanted & events and state.watchers is not None:
            for watcher in list(state.watchers.values()):
                if isinstance(watcher, FdWatcher) and watcher.readers.pop(waiter, False) is None:
                    waiter.wake_parked()


# ---- sending and receiving


def call_or_park(socket: Any, event: int, timeout_option: int, call: Callable[[int], T]) -> T:
    """Repeat a call until it succeeds. The call has just raised Again.

    ``call`` takes libzmq's flags (0 or NOW). Parks: ``zmq fd N``. Raises: Again after the timeout that the socket's
    option ``timeout_option`` sets.
    """
    me = parking_waiter()
    if me is None:
        return call(0)
    state, clock = state_of(socket), me.scheduler.clock
    milliseconds = standard_get(socket, timeout_option)
    deadline = None if milliseconds < 0 else clock() + milliseconds / 1000
    watcher = watcher_of(socket, me)
    state.waiters[me] = event
    tried_again = False
    try:
        while True:
            wake_others(socket)  # makes libzmq check, so that it signals later events
            try:
                return call(NOW)
            except Again:
                left = None if deadline is None else deadline - clock()
                if left is not None and left <= 0:
                    raise
            if len(state.waiters) > 1 and wake_others(socket) & event:
                # The call or this check consumed the signal for ``event``, so try again, but only once before the next
                # park: a ROUTER's POLLOUT is always set.
                if not tried_again:
                    tried_again = True
                    continue
                left = RETRY_SECONDS if left is None else min(left, RETRY_SECONDS)
            tried_again = False
            try:
                watcher.wait_readable(me, left)
            except OSError:
                raise ZMQError(zmq.ENOTSOCK) from None
    finally:
        del state.waiters[me]
        wake_others(socket)


def begin_call(socket: Any) -> SocketState:
    """Count a call. Yield if the caller's turn has taken too long, and no message is half sent or received."""
    state = state_of(socket)
    state.calls_until_check -= 1
    if state.calls_until_check <= 0 and not state.more_to_send:
        if waiter_that_is_due() is None:
            state.calls_until_check = CALLS_PER_CHECK
        elif not standard_get(socket, RCVMORE):
            state.calls_until_check = CALLS_PER_CHECK
            yield_if_due()
    return state


@wraps(standard_send)
def send(self: Any, data: Any, flags: int = 0, *args: Any, **options: Any) -> Any:
    """Send a frame. Parks: while the socket's pipes are full or the socket has no peer (``zmq fd N``)."""
    if flags & NOW:
        try:
            return standard_send(self, data, flags, *args, **options)
        finally:
            wake_others(self)
    state = begin_call(self)
    try:
        tracker = standard_send(self, data, flags | NOW, *args, **options)
    except Again:
        tracker = None
    else:
        state.more_to_send = flags & MORE
        wake_others(self)
        return tracker
    tracker = call_or_park(self, OUT, SNDTIMEO, lambda now: standard_send(self, data, flags | now, *args, **options))
    state.more_to_send = flags & MORE
    return tracker


def receiving(standard: Callable[..., T]) -> Callable[..., T]:
    """Return a method that parks where ``standard`` would wait for a frame."""

    @wraps(standard)
    def receive(self: Any, *args: Any, flags: int = 0, **options: Any) -> T:
        if flags & NOW:
            try:
                return standard(self, *args, flags=flags, **options)
            finally:
                wake_others(self)
        begin_call(self)
        try:
            frame = standard(self, *args, flags=flags | NOW, **options)
        except Again:
            pass
        else:
            wake_others(self)
            return frame
        return call_or_park(self, IN, RCVTIMEO, lambda now: standard(self, *args, flags=flags | now, **options))

    return receive


receive = receiving(standard_recv)


@wraps(standard_recv)
def recv(self: Any, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
    """Receive a frame. Parks: until a frame has come (``zmq fd N``)."""
    return receive(self, flags=flags, copy=copy, track=track)


# ---- other calls that make libzmq check for events, or close a socket


@wraps(standard_get)
def get(self: Any, option: int) -> Any:
    """Return an option. Parks: never."""
    value = standard_get(self, option)
    if option == EVENTS:
        wake_for(state_of(self), value)
    return value


def looking(standard: Callable[..., T]) -> Callable[..., T]:
    """Return a method that calls ``standard``, and then wakes the socket's waiters for which there are events."""

    @wraps(standard)
    def call(self: Any, *args: Any, **options: Any) -> T:
        try:
            return standard(self, *args, **options)
        finally:
            wake_others(self)

    return call


@wraps(standard_close)
def close(self: Any, linger: int | None = None) -> None:
    """Close the socket. ZMQError (ENOTSOCK) is raised in its waiters. Parks: never."""
    state = self.__dict__.get("_dhaga")
    if state is not None and state.watchers is not None:
        state.watchers.close()
    standard_close(self, linger)


METHODS: dict[str, Callable[..., Any]] = {
    "close": close,
    "get": get,
    "getsockopt": get,
    "recv": recv,
    "send": send,
    **{name: looking(getattr(Socket, name)) for name in ("bind", "connect", "disconnect", "unbind")},
}
if hasattr(Socket, "recv_into"):
    METHODS["recv_into"] = receiving(Socket.recv_into)
