"""Acknowledgements of Celery's messages: they are always sent in the consumer's thread, even if its loop does not run.

The consumer's thread owns the broker's socket. While its loop runs, acknowledgements are queued to the loop. While the
pool stops, the loop waits for ``TaskPool.on_stop``, which then calls ``run_acks`` itself. The listeners of an
acknowledgement also use the socket, so an acknowledgement with listeners is deferred to the loop (``DeferredAck``).
"""

from __future__ import annotations

from typing import Any

from kombu.message import Message

from ..._kernel.helper_threads import HelperThread

ACKS = ("ack_log_error", "reject_log_error")


class DeferredAck:
    """An acknowledgement that has listeners, and runs entirely on the loop of the consumer's thread.

    After a lost connection, Celery restores the prefetch count step by step in the acknowledging thread. This thread
    sends to the broker, and reads the reply from the socket that the consumer's thread also reads. If a task's thread
    did so, all tasks of that thread would hang.
    """

    def __init__(self, hub: Any, callback: Any) -> None:
        self._hub = hub
        self.callback = callback

    def __call__(self, *args: Any) -> None:
        self._hub.call_soon(AckCall(self.callback), *args)


class AckCall:
    """The call of a DeferredAck in the consumer's thread. ``is_ack`` recognizes this class."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback

    def __call__(self, *args: Any) -> None:
        self.callback(*args)


def defer_ack(request: Any, hub: Any) -> None:
    """Defer a task's acknowledgement to the consumer's thread if the acknowledgement has listeners."""
    for name in ("_on_ack", "_on_reject"):
        callback = getattr(request, name, None)
        if any(getattr(callback, "listeners", ())):
            setattr(request, name, DeferredAck(hub, callback))


def wake_hub(hub: Any) -> None:
    """Wake the loop of the consumer's thread from a signal handler.

    After a signal handler, Python restarts the interrupted poll (PEP 475), which may last 10 s if no timer is due. Only
    a call from another thread wakes the loop. That thread is joined for at most 1 s, because the handler may have
    interrupted code that holds the loop's lock.
    """
    thread = HelperThread("dhaga-celery", hub.call_soon, (int,))
    thread.start()
    thread.join(1.0)


def run_acks(hub: Any) -> None:
    """Fire due timers, such as heartbeats, and send acknowledgements. From: the consumer's thread.

    The hub's other due calls do not run: one of them may be the transport's reader, which would pass new tasks to a
    pool that accepts none.
    """
    hub.fire_timers()
    while run_ready_acks(hub):
        pass


def run_ready_acks(hub: Any) -> bool:
    """Run the acknowledgements that are ready. Returns: whether any has run, and may have queued others."""
    ran_any = False
    for callback in hub._pop_ready():
        if not is_ack(callback):
            hub.call_soon(callback)
            continue
        ran_any = True
        try:
            callback()
        except Exception as error:
            hub.on_callback_error(callback, error)
    return ran_any


def is_ack(callback: Any) -> bool:
    fun = getattr(callback, "fun", None)
    if isinstance(fun, AckCall):
        return True
    return isinstance(getattr(fun, "__self__", None), Message) and getattr(fun, "__name__", None) in ACKS
