"""Acknowledgements: sent in the consumer's thread, also while the pool ends and that thread's loop does not run."""

from __future__ import annotations

from typing import Any

from kombu.message import Message

from dhaga.kernel import originals

ACKS = ("ack_log_error", "reject_log_error")


class Followed:
    """An acknowledgement upon which more follows: all of it is left to the loop of the consumer's thread.

    After the broker was lost, Celery restores the prefetch count bit by bit, where each acknowledgement is called: it
    asks the broker, and reads the answer off a socket that the consumer's thread reads as well. There every task of an
    OS thread would hang.
    """

    def __init__(self, hub: Any, told: Any) -> None:
        self.hub = hub
        self.told = told

    def __call__(self, *args: Any) -> None:
        self.hub.call_soon(Following(self.told), *args)


class Following:
    """The call of a Followed, in the consumer's thread."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def __call__(self, *args: Any) -> None:
        self.told(*args)


def follow_in_consumer(request: Any, hub: Any) -> None:
    """Leave to the consumer's thread what follows upon an acknowledgement of this task."""
    for name in ("_on_ack", "_on_reject"):
        told = getattr(request, name, None)
        if any(getattr(told, "listeners", ())):
            setattr(request, name, Followed(hub, told))


def wake(hub: Any) -> None:
    """Have the loop of the consumer's thread look at what it was told.

    A signal's handler asks for the end, or stops the pool: the poll below it goes on (PEP 475), up to 10 s where no
    timer is due, and the loop wakes for calls of other threads alone. Such a thread is not waited for without end: the
    handler may have come while the loop's lock was held.
    """
    thread = originals.Thread(target=hub.call_soon, args=(int,), daemon=True)
    thread.start()
    thread.join(1.0)


def run_acks(hub: Any) -> None:
    """Fire the timers that are due, such as heartbeats, and send acknowledgements; in the consumer's thread.

    Nothing else that is due there runs: the transport's reader would hand new tasks to a pool that takes none.
    """
    hub.fire_timers()
    while run_those_ready(hub):
        pass


def run_those_ready(hub: Any) -> bool:
    """Return whether there were any: each may have left another one to be called."""
    some = False
    for callback in hub._pop_ready():
        if not is_ack(callback):
            hub.call_soon(callback)
            continue
        some = True
        try:
            callback()
        except Exception as error:
            hub.on_callback_error(callback, error)
    return some


def is_ack(callback: Any) -> bool:
    fun = getattr(callback, "fun", None)
    if isinstance(fun, Following):
        return True
    return isinstance(getattr(fun, "__self__", None), Message) and getattr(fun, "__name__", None) in ACKS
