"""Servers that a real Redis joins: one order for all, and nothing accepted is lost with Redis or a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from dhaga import await_, spawn
from examples.notifications import redis_link as link_module
from examples.notifications.messages import Refused
from examples.notifications.redis_link import RedisLink
from examples.notifications.server import NotificationServer
from tests.examples.notifications.conftest import REDIS
from tests.examples.notifications.test_endpoints import Serve, listening, until

Joined = Callable[[], NotificationServer]


@pytest.fixture
def joined(serve: Serve, stream: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Joined]:
    """Start servers that one stream joins."""
    monkeypatch.setattr(link_module, "BLOCK", 0.02)
    yield lambda: serve(redis=REDIS, stream=stream)


def texts(server: NotificationServer, topic: str = "t") -> list[str]:
    found = server.service.broker.topics.get(topic)
    return [message.text for message in found.history.messages] if found else []


def publish(server: NotificationServer, *numbers: int) -> None:
    for number in numbers:
        server.service.publish("t", str(number).encode())


def lose_the_stream(*servers: NotificationServer) -> None:
    """Have Redis lose everything, as by kill -9, and every link notice that it is gone."""
    link = servers[0].link
    assert link
    await_(link.redis.delete(link.stream, link.generation_key))
    for server in servers:
        assert server.link
        server.link.linked = False


@contextmanager
def stopped_reader(server: NotificationServer) -> Iterator[RedisLink]:
    """A link whose reader reads no more: what is added meanwhile is not read back."""
    link = server.link
    assert link
    link.stop(5)
    link.connect()
    link.linked = True
    yield link


def test_what_is_posted_at_one_reaches_the_clients_of_all_in_one_order(
    joined: Joined,
) -> None:
    servers = [joined() for _ in range(2)]
    with ExitStack() as stack:
        heard = [stack.enter_context(listening(server, kind))[1] for server in servers for kind in ("tcp", "sse")]
        publishers = [spawn(publish, servers[number % 2], *range(number * 10, number * 10 + 10)) for number in range(4)]
        for publisher in publishers:
            publisher.join()
        until(lambda: all(len(texts) == 40 for texts in heard))
    assert heard[0] == heard[1] == heard[2] == heard[3]
    assert sorted(map(int, heard[0])) == list(range(40))


def test_a_stream_that_was_lost_is_put_back_and_nobody_hears_twice(joined: Joined) -> None:
    one, other = joined(), joined()
    with listening(one, "tcp") as (_, heard), listening(other, "tcp") as (_, heard_too):
        publish(one, 1, 2, 3)
        until(lambda: len(heard) == len(heard_too) == 3)
        lose_the_stream(one, other)
        until(lambda: one.link and other.link and one.link.linked and other.link.linked)
        publish(other, 4)
        until(lambda: len(heard) == len(heard_too) == 4)
        assert heard == heard_too == ["1", "2", "3", "4"]
    third = joined()
    assert texts(third) == ["1", "2", "3", "4"]


def test_what_only_one_server_had_read_reaches_the_others_all_the_same(
    joined: Joined,
) -> None:
    one, other = joined(), joined()
    publish(one, 1)
    until(lambda: texts(other) == ["1"])
    with stopped_reader(other) as behind:
        publish(one, 2, 3)
        until(lambda: texts(one) == ["1", "2", "3"])
        assert one.link
        one.link.stopping = True
        one.link.reader.cancel()
        one.link.reader.join()
        lose_the_stream(one, other)
        behind.join()  # first he who is behind, who then takes a new message
        publish(other, 4)
        one.link.join()
        for link in (one.link, behind):
            for _, entries in await_(link.redis.xread({link.stream: str(link.last)}, count=100)):
                link.take(entries)
        assert texts(one) == ["1", "2", "3", "4"]
        assert texts(other) == ["1", "4", "2", "3"]


def test_what_was_accepted_and_not_read_back_is_put_back_too(joined: Joined) -> None:
    one = joined()
    with stopped_reader(one) as link:
        publish(one, 1, 2)
        assert texts(one) == [] and len(link.unread) == 2
        lose_the_stream(one)
        link.join()
        for _, entries in await_(link.redis.xread({link.stream: str(link.last)}, count=100)):
            link.take(entries)
        assert texts(one) == ["1", "2"] and not link.unread


def test_without_redis_messages_are_refused_at_once_and_clients_stay(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = joined()
    with listening(server, "sse") as (listener, heard):
        link = server.link
        assert link
        monkeypatch.setattr(link, "join", gone)
        link.linked = False
        with pytest.raises(Refused, match="try again") as caught:
            publish(server, 1)
        assert caught.value.status == 503
        until(lambda: server.details()["redis"] is False)
        monkeypatch.undo()
        until(lambda: link.linked)
        publish(server, 2)
        until(lambda: heard == ["2"])
        assert listener.connections == 1


def gone(*_: Any) -> None:
    raise ConnectionError("gone")
