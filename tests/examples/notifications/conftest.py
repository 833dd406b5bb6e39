"""Servers for the tests of the notifications, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from examples.notifications.server import NotificationServer
from examples.notifications.settings import Settings

REDIS = os.environ.get("DHAGA_REDIS", "redis://127.0.0.1:6379")


@pytest.fixture
def serve() -> Iterator[Callable[..., NotificationServer]]:
    """Start a server with these settings; they all end with the test."""
    with ExitStack() as stack:

        def start(**settings: Any) -> NotificationServer:
            return stack.enter_context(NotificationServer(Settings(**settings)))

        yield start


@pytest.fixture
def stream() -> Iterator[str]:
    """A key at a real Redis that nobody else uses; it is deleted in the end."""
    import redis

    client = redis.Redis.from_url(REDIS)
    key = f"dhaga-test-{uuid4()}"
    try:
        client.ping()
    except redis.ConnectionError as error:
        client.close()
        pytest.skip(f"no Redis at DHAGA_REDIS={REDIS}: {error}")
    yield key
    client.delete(key, f"{key}:generation")
    client.close()
