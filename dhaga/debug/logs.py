"""Names in logs: ``%(dhagaName)s`` and ``%(schedulerName)s``, for handlers of the standard ``logging``."""

from __future__ import annotations

import logging

from greenlet import getcurrent

from dhaga.kernel.microthread import Dhaga
from dhaga.kernel.waiting import here


class DhagaNames(logging.Filter):
    """Add to each record the name of the dhaga that logs, and of its scheduler: ``handler.addFilter(DhagaNames())``.

    Outside of dhagas they are the names of the OS thread and of the scheduler that runs there, or "-". It keeps
    every record. Source: a filter of a handler, as the standard has it; in a ``dictConfig`` ``{"()": DhagaNames}``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        me = getcurrent()
        scheduler = getattr(me, "scheduler", None) or getattr(here.main, "scheduler", here.guest)
        record.dhagaName = me.name if isinstance(me, Dhaga) else record.threadName
        record.schedulerName = getattr(scheduler, "name", "-")
        return True
