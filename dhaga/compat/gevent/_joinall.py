"""``joinall`` and ``killall``: wait for several greenlets, or kill them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from greenlet import GreenletExit, getcurrent

from ..._kernel.run.scheduler import sleep
from ._links import iwait, wait
from .timeout import Timeout


def joinall(
    greenlets: Iterable[Any], timeout: float | None = None, raise_error: bool = False, count: int | None = None
) -> list[Any]:
    """Wait for greenlets and return the ended ones; with ``raise_error``, raise the error of the first failed one.

    Parks: until ``count`` greenlets (default: all) have ended, or until ``timeout`` seconds have passed.
    """
    if not raise_error:
        return wait(greenlets, timeout, count)  # type: ignore[no-any-return]
    done = []
    for each in iwait(greenlets, timeout, count):
        if hasattr(each, "exception") and each.exception is not None:
            each.get()
        done.append(each)
    return done


def killall(
    greenlets: Iterable[Any], exception: Any = GreenletExit, block: bool = True, timeout: float | None = None
) -> None:
    """Kill greenlets. Parks: if ``block``, until all have ended. Raises: Timeout after ``timeout`` seconds."""
    victims = [each for each in greenlets if not each.dead]
    me: Any = getcurrent()
    for each in victims:
        if each is not me:
            each.kill(exception, block=False)
    if me in victims:
        me.kill(exception, block)  # with ``block``, kill() raises here, so the caller is killed last
    if block:
        timer = Timeout.start_new(timeout)
        try:
            if not all(each.dead for each in victims):
                sleep(0)  # as in Greenlet.kill()
            joinall(victims)
        finally:
            timer.cancel()
