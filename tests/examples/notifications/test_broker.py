"""The broker: ids, histories, and that a subscriber gets each message once, whenever it comes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dhaga import Cancelled, Dhaga, sleep, spawn
from dhaga.testing import cancel_at_every_park
from examples.notifications import broker as module
from examples.notifications.broker import DEFAULTS, Broker
from examples.notifications.history import History
from examples.notifications.messages import Id, Message, Refused


class RecordingSubscriber:
    """A subscriber that remembers what it has got."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def deliver(self, message: Message) -> None:
        self.heard.append(message.text)

    def listen(self, broker: Broker, *names: str, after: Id | None = None) -> module.Missed:
        missed = broker.subscribe(self, names, after)
        self.heard += [message.text for message in missed.messages]
        return missed


@contextmanager
def running(**limits: Any) -> Iterator[Broker]:
    broker = Broker(replace(DEFAULTS, **limits))
    broker.start()
    yield broker
    broker.close(5)


def delivered(broker: Broker) -> None:
    """Let the courier deliver everything."""
    while broker.outbox:
        sleep(0)
    sleep(0.001)


# ---- history


@pytest.mark.parametrize(("count", "size"), [(3, 10**6), (100, 3 * len(Message(Id(1, 0), "t", "x").json))])
def test_a_history_is_bounded_by_messages_and_by_bytes(count: int, size: int) -> None:
    history = History(Id(0, 0), count, size)
    for number in range(1, 8):
        history.add(Message(Id(number, 0), "t", "x"))
    assert [message.id.milliseconds for message in history.messages] == [5, 6, 7]
    assert (history.floor, history.last) == (Id(4, 0), Id(7, 0))
    assert [message.id.milliseconds for message in history.after(Id(5, 0))] == [6, 7]
    assert history.holds(Id(6, 0)) and not history.holds(Id(4, 0))


# ---- subscribing


def test_a_subscriber_gets_what_it_has_missed_and_then_what_comes_each_once() -> None:
    with running() as broker:
        ids = [broker.publish("a", str(number)) for number in range(5)]
        subscriber = RecordingSubscriber()
        missed = subscriber.listen(broker, "a", after=ids[1])
        assert (missed.gap, missed.last) == (False, ids[-1])
        broker.publish("a", "5")
        broker.publish("b", "not for it")
        delivered(broker)
    assert subscriber.heard == ["2", "3", "4", "5"]


def test_what_is_gone_or_of_another_life_is_told_as_a_gap() -> None:
    with running(history=2) as broker:
        ids = [broker.publish("a", str(number)) for number in range(4)]
        assert [
            RecordingSubscriber().listen(broker, "a", after=id).gap for id in (Id(1, 0), ids[0], ids[1], ids[3])
        ] == [*(True, True, False, False)]
        future = Id(ids[-1].milliseconds + 10**9, 0)
        assert RecordingSubscriber().listen(broker, "a", after=future).gap


def test_at_any_moment_a_subscriber_may_come_and_loses_and_doubles_nothing() -> None:
    chance = random.Random(7)
    with running() as broker:
        start = broker.publish("a", "0")
        subscribers: list[RecordingSubscriber] = []

        def publish() -> None:
            for number in range(1, 200):
                broker.publish("a", str(number))
                if chance.random() < 0.3:
                    sleep(0)

        publisher = spawn(publish)
        while publisher.is_alive():
            subscribers.append(RecordingSubscriber())
            subscribers[-1].listen(broker, "a", after=start)
            sleep(0)
        delivered(broker)
    assert len(subscribers) > 10
    assert all(subscriber.heard == [str(number) for number in range(1, 200)] for subscriber in subscribers)


# ---- bounds


def test_topics_are_bounded_and_the_oldest_that_nobody_hears_goes_first() -> None:
    with running(topics=3) as broker:
        first = broker.publish("heard", "1")
        subscriber = RecordingSubscriber()
        subscriber.listen(broker, "heard")
        broker.publish("old", "2")
        broker.publish("young", "3")
        broker.publish("new", "4")
        assert sorted(broker.topics) == ["heard", "new", "young"]
        assert RecordingSubscriber().listen(broker, "heard", after=first).gap is False
        assert RecordingSubscriber().listen(broker, "young", after=first).gap is False
        RecordingSubscriber().listen(broker, "new")
        with pytest.raises(Refused, match="no more can begin") as caught:
            broker.publish("more", "5")
        assert caught.value.status == 503


def test_publishers_wait_for_a_courier_that_is_behind_and_are_refused_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "OUTBOX", 2)
    broker = Broker(replace(DEFAULTS, patience=0.01))
    broker.publish("a", "1")
    broker.publish("a", "2")
    with pytest.raises(Refused, match="is behind") as caught:
        broker.publish("a", "3")
    assert caught.value.status == 503
    waiting = spawn(broker.publish, "a", "4", timeout=5)
    broker.start()
    waiting.join()
    subscriber = RecordingSubscriber()
    subscriber.listen(broker, "a", after=Id(waiting.result().milliseconds - 10**6, 0))
    broker.close(5)
    assert subscriber.heard == ["1", "2", "4"]


def test_what_was_taken_is_delivered_before_the_end_and_nothing_is_taken_after_it() -> None:
    with running() as broker:
        subscriber = RecordingSubscriber()
        subscriber.listen(broker, "a")
        for number in range(50):
            broker.publish("a", str(number))
    assert subscriber.heard == [str(number) for number in range(50)]
    with pytest.raises(Refused, match="stops"):
        broker.publish("a", "late")
    with pytest.raises(Refused, match="stops"):
        subscriber.listen(broker, "b")


def test_a_publisher_that_is_cancelled_or_timed_out_has_published_or_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUTBOX", 1)

    def scenario() -> Any:
        broker = Broker()
        subscriber = RecordingSubscriber()
        subscriber.listen(broker, "a")
        broker.publish("a", "1")
        broker.lock.acquire()
        victim: Dhaga[Id] = spawn(broker.publish, "a", "2")

        def others() -> None:
            broker.lock.release()
            sleep(0)
            broker.start()
            sleep(0.1)
            broker.publish("a", "3")
            broker.close(5)

        spawn(others)

        def check() -> None:
            try:
                published = [victim.result()]
            except (Cancelled, TimeoutError, Refused):
                published = []
            assert subscriber.heard == ["1", *("2" for _ in published), "3"]
            assert not broker.lock.locked() and not broker.outbox

        return victim, check

    assert cancel_at_every_park(scenario) >= 2
