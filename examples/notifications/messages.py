"""Ids, messages and topics' names: what is sent, and what may be.

An id is that of a Redis stream: milliseconds since 1970, and a number within them. All topics draw on one ascending
series, so a client that follows several of them resumes after one id. A server that starts anew goes on in time, so no
id comes twice, and ids before its start are known as such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple

LONGEST_NAME: Final = 100
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_ID: Final = re.compile(r"(\d{1,15})-(\d{1,15})")


class Refused(Exception):
    """What a client asked for is not done; `status` is that of HTTP."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Id(NamedTuple):
    """The place of a message in the one series; `str` gives what clients see."""

    milliseconds: int
    number: int

    def __str__(self) -> str:
        return f"{self.milliseconds}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Id:
        """Read an id. Raises: Refused."""
        match = _ID.fullmatch(text)
        if not match:
            raise Refused(400, f"{text[:40]!r} is not an id: send one back as you got it, such as 1763716939123-0")
        return cls(int(match[1]), int(match[2]))

    def next_at(self, seconds: float) -> Id:
        """Give the first id after this one that is not before a time, in seconds since 1970."""
        now = int(seconds * 1000)
        return Id(now, 0) if now > self.milliseconds else Id(self.milliseconds, self.number + 1)


class Message:
    """One message; what it looks like on a wire is made once for each format and shared by all its clients."""

    __slots__ = ("frames", "id", "json", "size", "topic")

    def __init__(self, id: Id, topic: str, text: str) -> None:
        self.id = id
        self.topic = topic
        self.json = json.dumps({"id": str(id), "topic": topic, "data": text}, ensure_ascii=False).encode()
        self.size = len(self.json)
        self.frames: dict[Callable[[Message], bytes], bytes] = {}

    def __repr__(self) -> str:
        return f"<Message {self.id} on {self.topic}, {self.size} bytes>"

    @property
    def text(self) -> str:
        """What was posted."""
        return str(json.loads(self.json)["data"])

    def framed(self, frame: Callable[[Message], bytes]) -> bytes:
        """Give what `frame(message)` makes of it, made once."""
        data = self.frames.get(frame)
        if data is None:
            data = self.frames[frame] = frame(self)
        return data


def checked_name(name: str) -> str:
    """Return a topic's name. Raises: Refused."""
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise Refused(
            400,
            f"{name[:40]!r} cannot name a topic: use 1 to {LONGEST_NAME} of A-Z a-z 0-9 . _ : - and begin with a "
            "letter or digit",
        )
    return name


def checked_text(data: bytes, limit: int) -> str:
    """Return a message's text. Raises: Refused if it is too long, or no UTF-8."""
    if len(data) > limit:
        raise Refused(413, f"a message of {len(data)} bytes is too long: at most {limit}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refused(400, "a message must be UTF-8") from None
