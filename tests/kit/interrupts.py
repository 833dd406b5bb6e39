"""Calls that tests interrupt, and code shared by the programs that they interrupt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dhaga

FINALLY = """
import signal, sys, time
import dhaga

def with_finally(what=lambda: dhaga.sleep(1000)):
    try:
        what()
    finally:
        dhaga.sleep(0.01)
        print("finally", flush=True)

def ready(*_):
    print("ready", flush=True)

def busy(seconds=20):
    ready()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""


class SoftLimit(Exception):
    """An error as Celery raises one in a task that takes too long."""


ERRORS = pytest.mark.parametrize("error", [dhaga.Cancelled(), SoftLimit()], ids=["cancelled", "exception"])
"""Errors from outside, for a parameter ``error``."""


def interrupt(error: BaseException, function: Callable[..., object], *args: object) -> None:
    """Interrupt a call that waits, and expect the error."""
    caller = dhaga.spawn(function, *args)
    while not caller.parked:
        dhaga.sleep(0)
    caller.cancel_with(error)
    with pytest.raises(type(error)):
        caller.result()
