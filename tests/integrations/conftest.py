"""What the tests of Celery's pool share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.celery_world import Said, World


@pytest.fixture
def world() -> Iterator[World]:
    from celery.worker import state
    from kombu.transport.memory import Transport

    from tests.kit.celery_world import World

    handlers, level = logging.root.handlers[:], logging.root.level
    yield World()
    state.reset_state()
    Transport.global_state.clear()
    logging.root.handlers[:] = handlers  # Celery has put its own there
    logging.root.setLevel(level)


@pytest.fixture
def said() -> Iterator[Said]:
    from tests.kit.celery_world import Said

    said, loggers = Said(), [logging.getLogger(name) for name in ("celery.pool", "dhaga")]
    for each in loggers:
        each.addHandler(said)
    yield said
    for each in loggers:
        each.removeHandler(said)
