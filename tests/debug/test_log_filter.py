"""Names of dhagas in log lines."""

from __future__ import annotations

import io
import logging
import logging.config
from collections.abc import Iterator

import pytest

import dhaga
from dhaga import debug
from dhaga._kernel import originals
from dhaga.testing import virtual_clock


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.addFilter(debug.DhagaNames())
    handler.setFormatter(logging.Formatter("%(dhagaName)s of %(schedulerName)s: %(message)s"))
    logger.addHandler(handler)
    yield text
    logger.removeHandler(handler)


logger = logging.getLogger("tests.debug.test_log_filter")
logger.setLevel(logging.INFO)


def test_each_dhaga_logs_under_its_name(lines: io.StringIO) -> None:
    def work() -> None:
        logger.info("one")
        dhaga.sleep(1)
        logger.info("two")

    with virtual_clock():
        dhagas = [dhaga.spawn(work, name=name) for name in ("a", "b")]
        for each in dhagas:
            each.join()
    assert lines.getvalue().splitlines() == [
        "a of virtual: one",
        "b of virtual: one",
        "a of virtual: two",
        "b of virtual: two",
    ]


def test_other_code_logs_under_the_name_of_its_thread(lines: io.StringIO) -> None:
    thread = originals.Thread(target=logger.info, args=("plain",), name="plain one")
    thread.start()
    thread.join()
    with virtual_clock():
        dhaga.sleep(0)
        logger.info("main")
    assert lines.getvalue().splitlines() == ["plain one of -: plain", "MainThread of virtual: main"]


def test_it_can_be_named_in_a_configuration() -> None:
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"names": {"()": "dhaga.debug.DhagaNames"}},
            "handlers": {"null": {"class": "logging.NullHandler", "filters": ["names"]}},
        }
    )
