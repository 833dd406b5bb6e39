"""``eventlet.zipkin``: not available."""

from __future__ import annotations

raise ImportError(
    "eventlet's tracing is not available here: dhaga.debug.trace() records the turns of all microthreads, and "
    "OpenTelemetry follows requests",
    name=__name__,
)
