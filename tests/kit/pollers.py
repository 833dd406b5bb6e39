"""Code shared by the tests of pollers and of fd watches."""

from __future__ import annotations

from typing import Any

import pytest

import dhaga
from dhaga._kernel import originals

has_epoll = pytest.mark.skipif(originals.epoll is None, reason="this platform has no epoll")
has_kqueue = pytest.mark.skipif(originals.kqueue is None, reason="this platform has no kqueue: make test-kqueue")


def poller_here() -> Any:
    return dhaga.current().scheduler.poller
