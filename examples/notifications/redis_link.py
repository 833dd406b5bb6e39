"""The link: one Redis stream joins several servers, so that what is posted at one reaches the clients of all.

Redis gives a message its id (XADD), and every server reads the stream in one order (XREAD), its own messages too. A
publisher has its answer when Redis has the message; without Redis it gets 503, and posts again.

Redis may keep nothing on disk and lose the stream. Each server then still has its topics' histories, and the messages
that it has added but not read back. It adds the messages that the new stream lacks: under their old id if the stream
has no later id yet, otherwise under a new id, marked `again`, so that servers that have them skip them. So an accepted
message is lost only if Redis and the server that accepted it die at the same moment. A message may come twice, the
second time under another id.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from dhaga import await_

from .broker import DEFAULTS, Broker, Limits
from .messages import Id, Message, Refused
from .runtime import threading, time

logger = logging.getLogger("notifications")

STREAM: Final = "notifications"
BLOCK: Final = 1.0
"""Seconds that an XREAD waits at Redis; a connection of which nothing came for SLOW more is dead."""

SLOW: Final = 2.0
"""Seconds after which a Redis that does not answer counts as dead: kill -9 and restart take less than one."""

PAUSE: Final = 0.2
"""Seconds between two tries to reach Redis."""

BATCH: Final = 100
"""Messages in one command: at most 6.4 MB, and a few milliseconds of Redis."""

CONNECTIONS: Final = 16

PUT_BACK: Final = """
local count = 0
for i = 1, #ARGV, 3 do
    local id, topic, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if #redis.call('XRANGE', KEYS[1], id, id) == 0 then
        local added = redis.pcall('XADD', KEYS[1], id, 'topic', topic, 'text', text)
        if type(added) == 'table' and added.err then
            redis.call('XADD', KEYS[1], '*', 'topic', topic, 'text', text, 'again', id)
        end
        count = count + 1
    end
end
return count
"""
"""Adds those messages that the stream lacks, as one step: several servers put back at once."""

FAULTS: Final = (RedisError, OSError, TimeoutError)
Fields = dict[bytes, bytes]


class RedisLink:
    """A server's tie to the stream; it lives in one dhaga, which reads, and in those of publishers, which add."""

    def __init__(self, url: str, broker: Broker, limits: Limits = DEFAULTS, stream: str = STREAM) -> None:
        self.url = url
        self.broker = broker
        self.stream = stream
        self.generation_key = f"{stream}:generation"
        self.length = 10 * limits.history
        self.generation: bytes | None = None  # of the stream's life at Redis: another one, and that has begun anew
        self.last = Id(0, 0)
        self.unread: dict[Id, tuple[str, str]] = {}  # added by us, not read back yet
        self.linked = False
        self.stopping = False
        self.redis: Any = None
        self.reader = threading.Thread(target=self.run, name=f"link to {url}", daemon=True)

    def __repr__(self) -> str:
        state = "linked" if self.linked else "not linked"
        return f"<RedisLink to {self.url}, {state}, last id {self.last}>"

    def call(self, command: Callable[..., Awaitable[Any]], *args: Any, timeout: float = SLOW, **options: Any) -> Any:
        """Run a command. Parks: at most so long. Raises: RedisError, OSError."""

        async def do() -> Any:  # redis-py's own coroutine of XREAD leaves another one behind if it never begins
            return await command(*args, **options)

        return await_(do(), timeout)

    # ---- publishing

    def publish(self, name: str, text: str) -> Id:
        """Add a message to the stream. Parks: until Redis has it. Returns: its id. Raises: Refused."""
        if not self.linked:
            raise Refused(503, "Redis does not answer: try again")
        fields = {"topic": name, "text": text}
        try:
            added = self.call(self.redis.xadd, self.stream, fields, maxlen=self.length, approximate=True)
        except FAULTS as error:
            raise Refused(503, f"Redis has not taken it, or we cannot tell: try again ({error})") from error
        id = Id.parse(added.decode())
        if id > self.last:
            self.unread[id] = (name, text)
        return id

    # ---- reading

    def start(self) -> None:
        """Fill the histories, and read from then on. Parks: meanwhile. Raises: ConnectionError."""
        self.connect()
        try:
            self.join()
        except FAULTS as error:
            self.disconnect()
            raise ConnectionError(f"there is no Redis at {self.url}: {error}") from error
        self.reader.start()

    def stop(self, timeout: float | None = None) -> None:
        """Read no more. Parks: until the last read has ended."""
        self.stopping = True
        self.reader.cancel("the server stops")
        self.reader.join(timeout)
        self.disconnect()

    def run(self) -> None:
        """Follow the stream, and find it again each time it is gone, until we stop."""
        while not self.stopping:
            try:
                if not self.linked:
                    self.join()
                self.follow()
            except FAULTS as error:
                if self.linked:
                    logger.info("Redis is gone (%s): messages are refused until it is back", error)
                self.linked = False
                time.sleep(PAUSE)

    def connect(self) -> None:
        pool = redis.BlockingConnectionPool.from_url(
            self.url,
            max_connections=CONNECTIONS,
            timeout=SLOW,
            socket_connect_timeout=SLOW,
            socket_timeout=SLOW + BLOCK,
            retry=Retry(NoBackoff(), 0),
        )
        self.redis = redis.Redis(connection_pool=pool)

    def disconnect(self) -> None:
        self.linked = False
        self.call(self.redis.connection_pool.disconnect)

    def join(self) -> None:
        """Find out what has become of the stream, and bring either side up to date. Raises: RedisError, OSError."""
        self.call(self.redis.set, self.generation_key, secrets.token_hex(8), nx=True)
        generation = self.call(self.redis.get, self.generation_key)
        if self.generation is None:
            self.load()
        elif generation != self.generation:
            self.put_back()
        self.generation = generation
        self.linked = True

    def load(self) -> None:
        """Read what the stream has, for the histories of a server that starts."""
        first = self.call(self.redis.xrange, self.stream, count=1)
        if first:  # from there on we have all
            self.broker.begin_at(Id.parse(first[0][0].decode()))
        while entries := self.call(self.redis.xrange, self.stream, min=f"({self.last}", count=BATCH):
            self.take(entries)

    def follow(self) -> None:
        """Take what comes. Parks: until something does, at most BLOCK seconds. Raises: RedisError, OSError."""
        streams = {self.stream: str(self.last)}
        read = self.call(self.redis.xread, streams, count=BATCH, block=int(BLOCK * 1000), timeout=SLOW + BLOCK)
        for _, entries in read or ():
            self.take(entries)

    def take(self, entries: Iterable[tuple[bytes, Fields]]) -> None:
        for key, fields in entries:
            self.last = id = Id.parse(key.decode())
            again = Id.parse(fields[b"again"].decode()) if b"again" in fields else None
            self.unread.pop(id, None)
            self.unread.pop(again or id, None)
            message = Message(id, fields[b"topic"].decode(), fields[b"text"].decode())
            try:
                self.broker.accept(message, again)
            except Refused as refused:
                logger.info("a message on %s is not delivered here: %s", message.topic, refused)

    def put_back(self) -> None:
        """Add the messages that this server has and a new stream lacks."""
        ours = {message.id: (message.topic, message.text) for message in self.broker.remembered()} | self.unread
        put_back = self.redis.register_script(PUT_BACK)
        count = 0
        for ids in batched(sorted(ours)[-self.length :]):
            told = [word for id in ids for word in (str(id), *ours[id])]
            count += self.call(put_back, keys=[self.stream], args=told)
        logger.info("Redis has begun anew: %d of %d messages were put back", count, len(ours))


def batched(ids: list[Id]) -> Iterator[list[Id]]:
    """Cut a list into batches."""
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
