"""What the tasks of one OS thread ask of Redis at the same time goes there, and comes back, together.

A result is a GET, a SETEX and a PUBLISH, and most of what redis-py takes for them is for the way there: of 200 results
at once each takes 410 µs of CPU time if they go one by one, and 130 by batches.
"""

from __future__ import annotations

from collections import deque
from contextvars import Context
from typing import Any

from dhaga.futures import Future
from dhaga.kernel.api import sleep, spawn
from dhaga.kernel.callers import scheduler_here
from dhaga.kernel.microthread import Dhaga

MOST_BYTES = 1 << 20
"""Of one batch, unless a single order has more: results may be large, and a batch is put together in memory."""

MOST_ORDERS = 500
"""Of one batch: the first of them is to wait no longer than it must."""


class Order(Future[Any]):
    """Commands that go together, in this order; what comes of it is what comes of the last one."""

    def __init__(self, *commands: tuple[Any, ...]) -> None:
        super().__init__()
        self.commands = commands

    def size(self) -> int:
        """Return the bytes of it, about."""
        return sum(len(part) for command in self.commands for part in command if isinstance(part, str | bytes))

    def end_by(self, values: list[Any]) -> None:
        """Take what came of each command; the first error counts."""
        error = next((value for value in values if isinstance(value, Exception)), None)
        if error is None:
            self.set_result(values[-1])
        else:
            self.set_exception(error)


class Batches:
    """Stand in for the ``get`` and ``_set`` of a Redis backend of Celery's.

    A dhaga of its own, while there is something to send, sends all that is due, and meanwhile the next batch gathers.
    So whoever asks may be cancelled, which is nothing to the others.
    """

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.due: deque[Order] = deque()
        self.courier: Dhaga | None = None
        self.line: Any = None  # a client of Redis with a connection of its own

    def get(self, key: Any) -> Any:
        """Return a value. Parks: until it has come (``future.result``). Raises: what redis-py raises."""
        return self.ask(Order(("GET", key)))

    def set(self, key: Any, value: Any, expires: int | None = None) -> None:
        """Store a value, and tell those who wait for it. Parks: until that is done. Raises: as ``get``."""
        seconds = self.backend.expires if expires is None else expires
        store = ("SETEX", key, seconds, value) if seconds else ("SET", key, value)
        self.ask(Order(store, ("PUBLISH", key, value)))

    def ask(self, order: Order) -> Any:
        """Have an order carried out, and return what comes of it."""
        self.due.append(order)
        if self.courier is None:
            self.courier = spawn(self.deliver, name="results", daemon=True, context=Context())
        return order.result()

    def deliver(self) -> None:
        """Send one batch after the other, until nothing is due."""
        try:
            while self.due:
                self.gather()
                self.send(self.batch())
        except BaseException as error:
            while self.due:
                self.due.popleft().set_exception(error)
            raise
        finally:
            self.courier = None

    def gather(self) -> None:
        """Let the others run for as long as that brings more orders: tasks that begin together end together."""
        ready, count = scheduler_here().ready, 0
        while ready and count < len(self.due) < MOST_ORDERS:
            count = len(self.due)
            sleep(0)

    def batch(self) -> list[Order]:
        """Take from what is due as much as one batch may have."""
        batch = [self.due.popleft()]
        size = batch[0].size()
        while self.due and len(batch) < MOST_ORDERS and size + self.due[0].size() <= MOST_BYTES:
            size += self.due[0].size()
            batch.append(self.due.popleft())
        return batch

    def send(self, batch: list[Order]) -> None:
        """Send orders and tell them what came of each, or what kept all of them from being carried out."""
        try:
            answers = self.exchange([command for order in batch for command in order.commands])
        except BaseException as error:
            for order in batch:
                order.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for order in batch:
            order.end_by([answers.popleft() for _ in order.commands])

    def exchange(self, commands: list[tuple[Any, ...]]) -> deque[Any]:
        """Return the answers to commands; the connection may have been lost since the last ones."""
        if self.line is None:
            return self.talk(commands)
        try:
            return self.talk(commands)
        except self.backend.redis.ConnectionError:
            return self.talk(commands)

    def talk(self, commands: list[tuple[Any, ...]]) -> deque[Any]:
        """Send commands and return their answers. Over the connection itself: a pipeline takes three times as long."""
        if self.line is None:
            self.line = self.backend.client.client()
        line = self.line.connection
        try:
            line.send_packed_command(line.pack_commands(commands))
            return deque(self.answer_of(line) for _ in commands)
        except BaseException:  # an answer that comes later would be taken for one of the next
            self.line = None
            line.disconnect()
            raise

    def answer_of(self, line: Any) -> Any:
        """Return the next answer, or the error that it is."""
        try:
            return line.read_response()
        except self.backend.redis.ResponseError as error:
            return error
