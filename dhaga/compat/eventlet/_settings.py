"""Switches of ``eventlet.debug``, for the process."""

from __future__ import annotations

hub_exceptions = True
"""Report the error of a greenthread without a waiter."""

unreported: tuple[type[BaseException], ...] = ()
"""Errors of greenthreads that are not reported: StopServe."""

tpool_exceptions = False
"""Report the error of a call in a thread of ``tpool`` before raising it."""
