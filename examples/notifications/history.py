"""What a topic remembers: its last messages, bounded, and from where on it has them all."""

from __future__ import annotations

from collections import deque
from itertools import takewhile

from .messages import Id, Message


class History:
    """The last messages of a topic, oldest first; every one after `floor` is here, of those before some may be gone."""

    def __init__(self, floor: Id, count: int, size: int) -> None:
        self.floor = floor
        self.count = count
        self.size = size
        self.bytes = 0
        self.messages: deque[Message] = deque()

    def __repr__(self) -> str:
        return f"<History of {len(self.messages)} messages after {self.floor}>"

    def add(self, message: Message) -> None:
        """Add the newest message; the oldest go."""
        self.messages.append(message)
        self.bytes += message.size
        while len(self.messages) > self.count or (self.bytes > self.size and len(self.messages) > 1):
            oldest = self.messages.popleft()
            self.bytes -= oldest.size
            self.floor = max(self.floor, oldest.id)

    def after(self, id: Id) -> list[Message]:
        """Give the messages after an id, oldest first."""
        found = list(takewhile(lambda message: message.id > id, reversed(self.messages)))
        found.reverse()
        return found

    def holds(self, id: Id) -> bool:
        """Return whether a message is here."""
        return any(message.id == id for message in self.messages)

    @property
    def last(self) -> Id:
        """The id of the newest message; without any, the floor."""
        return self.messages[-1].id if self.messages else self.floor
