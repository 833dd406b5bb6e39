"""Process-wide settings, such as the switches of ``eventlet.debug``."""

from __future__ import annotations

hub_exceptions = True
"""Whether an error that ends a greenthread is reported if nothing waits for the greenthread's result."""

unreported: tuple[type[BaseException], ...] = ()
"""Classes of errors that are not reported if they end a greenthread, such as StopServe."""

tpool_exceptions = False
"""Whether ``tpool.execute`` reports an error of its call before it raises the error."""
