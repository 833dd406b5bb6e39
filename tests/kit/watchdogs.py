"""What a watchdog has logged about one dhaga."""

from __future__ import annotations

import logging

import pytest


def records_of(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    """Return a watchdog's records about a dhaga. On a busy machine, main code may be named before."""
    return [record for record in list(caplog.records) if record.getMessage().startswith(f"{name} has held")]
