"""A filter for the standard ``logging`` that adds ``%(dhagaName)s`` and ``%(schedulerName)s`` to records."""

from __future__ import annotations

import logging

from greenlet import getcurrent

from .._kernel.run.microthread import Dhaga
from .._kernel.wait.current import this_thread


class DhagaNames(logging.Filter):
    """Adds the names of the logging dhaga and of its scheduler to each record: ``handler.addFilter(DhagaNames())``.

    Outside dhagas, the names are the OS thread's name, and the name of the thread's scheduler ("-" without a
    scheduler). The filter does not drop records.
    Source: ``logging.Filter`` of a handler; in a ``dictConfig``: ``{"()": DhagaNames}``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        me = getcurrent()
        scheduler = getattr(me, "scheduler", None) or getattr(this_thread.main, "scheduler", this_thread.guest)
        record.dhagaName = me.name if isinstance(me, Dhaga) else record.threadName
        record.schedulerName = getattr(scheduler, "name", "-")
        return True
