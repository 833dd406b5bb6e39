"""A collector of OpenTelemetry's spans over HTTP, for tests: it keeps the names of what is sent to it."""

from __future__ import annotations

import gzip
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.kit.scripts import PATIENCE


class Collector:
    """Listens while its block runs. ``spans``: how often each name came; ``processes``: which processes sent them."""

    def __init__(self) -> None:
        self.spans: Counter[str] = Counter()
        self.processes: set[int] = set()
        self.changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    collector.keep(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def keep(self, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        request = ExportTraceServiceRequest.FromString(body)
        with self.changed:
            for of_resource in request.resource_spans:
                attributes = {each.key: each.value for each in of_resource.resource.attributes}
                if "process.pid" in attributes:
                    self.processes.add(attributes["process.pid"].int_value)
                for scope in of_resource.scope_spans:
                    self.spans.update(span.name for span in scope.spans)
            self.changed.notify_all()

    def wait_for(self, name: str, count: int) -> None:
        """Wait until so many spans of this name have come."""
        deadline = time.monotonic() + PATIENCE
        with self.changed:
            while self.spans[name] < count:
                assert self.changed.wait(deadline - time.monotonic()), self.spans

    @property
    def environment(self) -> dict[str, str]:
        """The settings of an agent that sends its spans here, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://{}:{}".format(*self.server.server_address),
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_SERVICE_NAME": "test",
        }

    def __enter__(self) -> Collector:
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
