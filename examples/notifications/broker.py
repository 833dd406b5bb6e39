"""The broker: topics, who listens to them, and the courier that takes messages to them in one order.

Plain threaded code: one lock over all topics, held for moments. A message is in its topic's history before any
subscriber gets it. So a new subscriber gets all after an id, each once: those in the history from there, later ones
from the courier.
Not here: sockets and what messages look like on them.
"""

from __future__ import annotations

import time as clock
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from .history import History
from .messages import Id, Message, Refused, checked_name
from .runtime import threading, time

LAP: Final = 64
"""Clients that the courier writes to before others have a turn: at 10 µs a client, well below a millisecond."""

OUTBOX: Final = 1000
"""Messages that wait for the courier before publishers wait for it."""

MANY: Final = 10**15 - 1
START: Final = Id(0, 0)
STOPS: Final = Refused(503, "the server stops: try another one, or again")


@dataclass(frozen=True)
class Limits:
    """What one server takes on."""

    topics: int = 1000
    history: int = 1000  # messages of a topic
    history_bytes: int = 1 << 20  # of a topic, so at most 1 GiB over all topics
    message: int = 64 << 10  # bytes
    subscriptions: int = 100  # of a client
    queue: int = 256  # messages that a slow client may be behind its socket
    patience: float = 10.0  # seconds a publisher waits


DEFAULTS: Final = Limits()


class Subscriber(Protocol):
    """Who gets messages."""

    def deliver(self, message: Message) -> None:
        """Take a message. Must not park: the courier has others to serve."""


class Topic:
    """A topic's history, and its subscribers, each with the id after which the courier serves it."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self.history = history
        self.subscribers: dict[Subscriber, Id] = {}
        self.published = 0

    def __repr__(self) -> str:
        return f"<Topic {self.name}, {len(self.subscribers)} subscribers, {self.published} messages>"


class Missed(NamedTuple):
    """What a subscriber has missed; `gap`: more than that is gone, or cannot be excluded to be."""

    messages: list[Message]
    gap: bool
    last: Id


class Broker:
    """Takes messages and has them delivered; ids are its own, or given to it with the messages (`accept`)."""

    def __init__(self, limits: Limits = DEFAULTS, leeway: float = 0.0) -> None:
        self.limits = limits
        self.leeway = leeway  # seconds by which ids that others gave may be ahead of our clock
        self.floor = START.next_at(clock.time())  # nothing is known of what was before
        self.last = self.floor
        self.topics: dict[str, Topic] = {}
        self.counts: Counter[str] = Counter()
        self.outbox: deque[Message] = deque()
        self.closed = False
        self.lock = threading.Lock()
        self.news = threading.Condition(self.lock)
        self.room = threading.Condition(self.lock)
        self.courier = threading.Thread(target=self.run, name="courier", daemon=True)

    def __repr__(self) -> str:
        return f"<Broker of {len(self.topics)} topics, last id {self.last}, {len(self.outbox)} to deliver>"

    # ---- publishing

    def publish(self, name: str, text: str, timeout: float | None = None) -> Id:
        """Take a message, under an id of our own.

        Parks: while the courier is far behind. Returns: its id; it is in the history by now. Raises: Refused.
        """
        checked_name(name)
        with self.lock:
            self.wait_for_room(self.limits.patience if timeout is None else timeout)
            topic = self.topic(name)
            message = Message(self.last.next_at(clock.time()), name, text)
            self.post(topic, message)
        return message.id

    def accept(self, message: Message, instead_of: Id | None = None) -> None:
        """Take a message that has its id, one later than all before; not if the topic has `instead_of` already.

        Parks: while the courier is far behind. Raises: Refused if its topic is one too many.
        """
        with self.lock:
            self.wait_for_room(None)
            topic = self.topic(message.topic)
            if instead_of is None or not topic.history.holds(instead_of):
                self.post(topic, message)

    def wait_for_room(self, timeout: float | None) -> None:
        if not self.room.wait_for(lambda: self.closed or len(self.outbox) < OUTBOX, timeout):
            raise Refused(503, "the server is behind with delivering: try again")
        if self.closed:
            raise STOPS

    def post(self, topic: Topic, message: Message) -> None:
        self.last = message.id
        topic.published += 1
        topic.history.add(message)
        self.counts["published"] += 1
        self.outbox.append(message)
        self.news.notify()

    def topic(self, name: str) -> Topic:
        """Find a topic, or begin it; where there are too many, one without subscribers ends. Raises: Refused."""
        topic = self.topics.get(name)
        if topic is None:
            if len(self.topics) >= self.limits.topics:
                self.forget_one()
            history = History(self.floor, self.limits.history, self.limits.history_bytes)
            topic = self.topics[name] = Topic(name, history)
        return topic

    def forget_one(self) -> None:
        idle = [topic for topic in self.topics.values() if not topic.subscribers]
        if not idle:
            raise Refused(503, f"there are {len(self.topics)} topics with subscribers: no more can begin")
        oldest = min(idle, key=lambda topic: topic.history.last)
        self.floor = max(self.floor, oldest.history.last)
        del self.topics[oldest.name]

    def begin_at(self, id: Id) -> None:
        """Know that all from this id on will be accepted: for a broker that has accepted nothing yet."""
        with self.lock:
            self.floor = self.last = Id(id.milliseconds, id.number - 1) if id.number else Id(id.milliseconds - 1, MANY)

    # ---- subscribing

    def subscribe(self, subscriber: Subscriber, names: Iterable[str], after: Id | None) -> Missed:
        """Deliver messages from now on. Parks: never for long. Raises: Refused, and nothing is begun.

        Returns: what has come after an id so far (without one: nothing), to be sent before what is delivered. Called
        once more, for other topics, it adds to them.
        """
        names = [checked_name(name) for name in dict.fromkeys(names)]
        with self.lock:
            if self.closed:
                raise STOPS
            unknown = after is not None and after.milliseconds > (clock.time() + self.leeway) * 1000
            since = self.last if after is None or unknown else max(after, self.last)
            topics = self.enter(subscriber, names, since)
            return Missed([], unknown, self.last) if after is None or unknown else self.missed(topics, after)

    def enter(self, subscriber: Subscriber, names: list[str], since: Id) -> list[Topic]:
        entered: list[Topic] = []
        try:
            for name in names:
                topic = self.topic(name)
                if subscriber in topic.subscribers:
                    raise Refused(409, f"{name} is subscribed to already")
                topic.subscribers[subscriber] = since
                entered.append(topic)
        except Refused:
            for topic in entered:
                del topic.subscribers[subscriber]
            raise
        return entered

    def missed(self, topics: list[Topic], after: Id) -> Missed:
        messages = [message for topic in topics for message in topic.history.after(after)]
        if len(topics) > 1:
            messages.sort(key=lambda message: message.id)
        return Missed(messages, any(after < topic.history.floor for topic in topics), max(after, self.last))

    def read(self, names: Iterable[str], after: Id) -> Missed:
        """Give what has come after an id. Parks: never for long."""
        with self.lock:
            return self.missed([self.topics[name] for name in names if name in self.topics], after)

    def unsubscribe(self, subscriber: Subscriber, names: Iterable[str]) -> None:
        """End that; a delivery may be under way still. Parks: never, so that no cancel can cut it short."""
        for name in names:
            topic = self.topics.get(name)
            if topic is not None:
                topic.subscribers.pop(subscriber, None)  # as one step, even among threads

    def remembered(self) -> list[Message]:
        """Give all messages of all histories."""
        with self.lock:
            return [message for topic in self.topics.values() for message in topic.history.messages]

    # ---- the courier

    def start(self) -> None:
        """Begin to deliver."""
        self.courier.start()

    def run(self) -> None:
        """Deliver messages in the order of their ids, until the broker is closed and nothing is left."""
        while (message := self.next_message()) is not None:
            for number, subscriber in enumerate(self.subscribers_for(message), 1):
                subscriber.deliver(message)
                if not number % LAP:
                    time.sleep(0)

    def next_message(self) -> Message | None:
        with self.lock:
            self.news.wait_for(lambda: self.outbox or self.closed)
            if not self.outbox:
                return None
            self.room.notify()
            return self.outbox.popleft()

    def subscribers_for(self, message: Message) -> list[Subscriber]:
        with self.lock:
            topic = self.topics.get(message.topic)
            if topic is None:  # forgotten since
                return []
            subscribers = list(topic.subscribers.items())  # as one step: some may leave meanwhile
        return [subscriber for subscriber, since in subscribers if since < message.id]

    def close(self, timeout: float | None = None) -> None:
        """Take no more; deliver what is left. Parks: until that is done."""
        with self.lock:
            self.closed = True
            self.news.notify_all()
            self.room.notify_all()
        self.courier.join(timeout)

    def status(self) -> list[dict[str, Any]]:
        """Tell about each topic, for people."""
        with self.lock:
            return [
                {
                    "name": topic.name,
                    "subscribers": len(topic.subscribers),
                    "published": topic.published,
                    "history": len(topic.history.messages),
                    "last": str(topic.history.last),
                }
                for topic in self.topics.values()
            ]
