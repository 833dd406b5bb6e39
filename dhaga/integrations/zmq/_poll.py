"""``zmq_poll``, which parks for several sockets, is the base of pyzmq's ``Poller``, ``select`` and ``Socket.poll``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import zmq
from zmq import Socket, ZMQError

from ..._kernel.run.fd_watch import READ, WRITE, FdWatcher, closed_error
from ..._kernel.run.scheduler import Scheduler
from ..._kernel.wait.current import parking_waiter
from ..._kernel.wait.waiter import Waiter
from ...select import immediate
from ._socket import OUT, state_of, wake_others, watcher_of

standard_poll = zmq.zmq_poll


class PollTarget:
    """The object that a polling dhaga waits for: watchers of several fds. The first ready fd wakes the dhaga."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.watched: list[tuple[FdWatcher, int]] = []

    def add_fd(self, fd: int, events: int, undo: list[Callable[[], object]]) -> None:
        """Watch an fd that is not a libzmq socket. Append to ``undo`` a function that ends the watch."""
        watcher = FdWatcher(self.scheduler, fd)
        undo.append(watcher.close)
        self.watched.append((watcher, (READ if events & ~OUT else 0) | (WRITE if events & OUT else 0)))

    def wait(self, me: Waiter, timeout: float | None) -> object:
        """Park until an fd is ready. Returns: TIMED_OUT after the timeout. Raises: OSError (EBADF) for a closed fd."""
        for watcher, directions in self.watched:
            if directions & ~watcher.interest:
                watcher.poller.register(watcher, directions)
        me.prepare_park(f"zmq.poll fd {', '.join(str(watcher.fd) for watcher, _ in self.watched)}"[:60], self)
        try:
            for watcher, directions in self.watched:
                if directions & READ:
                    watcher.readers[me] = None
                if directions & WRITE:
                    watcher.writers[me] = None
                if watcher.closed:  # another thread has just closed the fd
                    me.wake_parked(error=closed_error())
            return me.park_within(timeout)
        finally:
            self._remove(me)

    def _remove(self, waiter: Waiter) -> None:
        for watcher, _ in self.watched:
            if watcher.take_off(waiter) and not watcher.readers and not watcher.writers:
                watcher.poller.last_waiter_left(watcher)


def poll_at_once(items: Any) -> Any:
    """Return the current events. libzmq signals later events through the sockets' fds."""
    while True:
        found = standard_poll(items, 0)
        seen = [wake_others(thing) & events for thing, events in items if isinstance(thing, Socket)]
        if found or not any(seen):
            return found


@wraps(standard_poll)
def zmq_poll(sockets: Any, timeout: int = -1) -> Any:
    """Wait until a socket or an fd has an event, up to ``timeout`` milliseconds. Parks: ``zmq.poll fd N, …``."""
    immediate.count_call()
    found = poll_at_once(sockets)
    if found or timeout == 0 or not sockets:
        return found
    immediate.in_a_row = 0
    me = parking_waiter()
    return standard_poll(sockets, timeout) if me is None else park_for_poll(me, sockets, timeout)


def park_for_poll(me: Waiter, items: Any, timeout: int) -> Any:
    clock = me.scheduler.clock
    deadline = None if timeout < 0 else clock() + timeout / 1000
    undo: list[Callable[[], object]] = []
    try:
        target = PollTarget(me.scheduler)
        for thing, events in items:
            if isinstance(thing, Socket):
                target.watched.append((watcher_of(thing, me), READ))
                waiters = state_of(thing).waiters
                waiters[me] = waiters.get(me, 0) | events
                undo.append(partial(waiters.pop, me, None))
            else:
                target.add_fd(thing if isinstance(thing, int) else int(thing.fileno()), events, undo)
        while not (found := poll_at_once(items)):
            left = None if deadline is None else deadline - clock()
            if left is not None and left <= 0:
                break
            try:
                target.wait(me, left)
            except OSError as error:
                # Do not poll again: libzmq mistakes a closed socket for fd 0.
                closed = any(isinstance(thing, Socket) and thing.closed for thing, _ in items)
                raise ZMQError(zmq.ENOTSOCK if closed else error.errno) from None
        return found
    finally:
        for call in reversed(undo):
            call()
