"""Acknowledgements while the pool ends: sent in the consumer's thread, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("celery")

from kombu.message import Message

from dhaga.integrations.celery import _acks


class Hub:
    """The loop of a consumer's thread, as far as it is asked here."""

    def __init__(self) -> None:
        self.ready: list[Any] = []
        self.fired = 0
        self.errors: list[Exception] = []

    def call_soon(self, callback: Any, *args: Any) -> None:
        """Queue a call as kombu does: as something that has the function as ``fun``."""
        self.ready.append(callback if hasattr(callback, "fun") else Call(callback, *args))

    def _pop_ready(self) -> list[Any]:
        ready, self.ready = self.ready, []
        return ready

    def fire_timers(self) -> None:
        self.fired += 1

    def on_callback_error(self, callback: Any, error: Exception) -> None:
        self.errors.append(error)


class Call:
    def __init__(self, fun: Callable[..., Any], *args: Any) -> None:
        self.fun, self.args = fun, args

    def __call__(self) -> Any:
        return self.fun(*self.args)


class Acknowledged(Message):
    def __init__(self, trace: list[str]) -> None:
        super().__init__()
        self.trace = trace

    def ack_log_error(self, *args: Any) -> None:
        self.trace.append("acknowledged")


def test_acknowledgements_are_sent_and_what_else_is_due_stays_for_later() -> None:
    hub, trace = Hub(), list[str]()
    hub.call_soon(trace.append, "a new task")
    hub.call_soon(Acknowledged(trace).ack_log_error)
    _acks.run_acks(hub)
    assert (trace, hub.fired, len(hub.ready)) == (["acknowledged"], 1, 1)


def test_what_follows_upon_an_acknowledgement_is_left_to_the_consumers_thread() -> None:
    hub, trace = Hub(), list[str]()
    follows = SimpleNamespace(listeners=[print])
    request = SimpleNamespace(_on_ack=follows, _on_reject=SimpleNamespace(listeners=[]))
    untouched = request._on_reject
    _acks.defer_ack(request, hub)
    assert request._on_reject is untouched and request._on_ack is not follows
    request._on_ack.callback = trace.append
    request._on_ack("done")
    assert trace == []
    _acks.run_acks(hub)
    assert trace == ["done"]


def test_one_that_fails_is_told_and_the_others_are_sent() -> None:
    def fails() -> None:
        raise OSError("lost")

    hub, trace = Hub(), list[str]()
    for each in (fails, lambda: trace.append("sent")):
        hub.call_soon(_acks.AckCall(each))
    _acks.run_acks(hub)
    assert trace == ["sent"] and [str(error) for error in hub.errors] == ["lost"]
