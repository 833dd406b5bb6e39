"""What ``eventlet.debug`` switches on and off, for the process."""

from __future__ import annotations

hub_exceptions = True
"""Report the error of a greenthread that is not waited for."""

unreported: tuple[type[BaseException], ...] = ()
"""Errors of greenthreads that are no news: StopServe."""

tpool_exceptions = False
"""Report the error of a call in a thread of ``tpool``, besides raising it."""
