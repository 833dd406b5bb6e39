"""OpenTelemetry's spans: spans of a dhaga or a submitted call are children of the span in which it was started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool

sdk = pytest.importorskip("opentelemetry.sdk.trace")


def spans_of(work: Callable[[Any], object]) -> dict[str, str | None]:
    """Return the name of each span that ``work`` makes with a tracer, and the name of its parent."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    work(provider.get_tracer("tests"))
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    return {span.name: names.get(span.parent.span_id) if span.parent else None for span in spans}


def test_spans_follow_spawn_scope_and_pool() -> None:
    def work(tracer: Any) -> None:
        def child(name: str) -> None:
            with tracer.start_as_current_span(name):
                dhaga.sleep(0.001)

        with Pool(threads=2, dhagas=2) as pool, tracer.start_as_current_span("outer"):
            spawned = dhaga.spawn(child, "spawned")
            with dhaga.Scope() as scope:
                scope.spawn(child, "scoped")
            submitted = [pool.submit(child, f"submitted {n}") for n in range(8)]
            spawned.join()
            dhaga.offload(child, "offloaded")
            for each in submitted:
                each.result()

    assert spans_of(work) == {
        "outer": None,
        "spawned": "outer",
        "scoped": "outer",
        "offloaded": "outer",
        **{f"submitted {n}": "outer" for n in range(8)},
    }


def test_siblings_that_take_turns_keep_their_own_spans() -> None:
    def work(tracer: Any) -> None:
        def nested(name: str) -> None:
            with tracer.start_as_current_span(name):
                dhaga.sleep(0)
                with tracer.start_as_current_span(f"{name} inner"):
                    dhaga.sleep(0)

        dhagas = [dhaga.spawn(nested, name) for name in ("a", "b")]
        for each in dhagas:
            each.join()

    assert spans_of(work) == {"a": None, "b": None, "a inner": "a", "b inner": "b"}
