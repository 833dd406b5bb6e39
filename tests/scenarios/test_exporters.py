"""A service that is told to end loses nothing that its exporters hold: spans, messages to Sentry, lines of its own.

20 requests are under way when SIGTERM comes. Exit handlers send the items that these leave in the queues of daemon
threads. So a collector has all items once the process has ended, as under gunicorn's ``gthread``.
"""

from __future__ import annotations

import contextlib
import gzip
import http.server
import importlib.util
import json
import pathlib
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.prefork_programs import Running
from tests.kit.scripts import PATIENCE, ROOT

REQUESTS = 20

SERVICE = """
import atexit, json, os, pathlib, queue, signal, sys, threading, time, urllib.request
sys.modules["eventlet"] = None  # Sentry would import it, and it cannot be imported beside trio
import sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

COLLECTOR = os.environ["COLLECTOR"]
lines = queue.Queue()


def post(kind, names):
    urllib.request.urlopen(f"http://{COLLECTOR}/{kind}", json.dumps(names).encode()).read()


class Exporter(SpanExporter):
    def export(self, spans):
        post("spans", [span.name for span in spans])
        return SpanExportResult.SUCCESS


def send_lines():
    while True:
        post("lines", [lines.get()])
        lines.task_done()


sentry_sdk.init(f"http://key@{COLLECTOR}/1", shutdown_timeout=60, auto_enabling_integrations=False,
                _experiments={"transport_compression_algo": "gzip"})
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(Exporter(), schedule_delay_millis=600_000))
trace.set_tracer_provider(provider)
threading.Thread(target=send_lines, daemon=True).start()
atexit.register(lines.join)


def app(environ, start_response):
    name = environ["QUERY_STRING"]
    print("a request has begun", file=sys.stderr, flush=True)
    while not os.path.exists("told to end"):
        time.sleep(0.01)
    with provider.get_tracer("service").start_as_current_span(name):
        sentry_sdk.capture_message(name)
        lines.put(name)
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""

PROGRAM = """
import signal, socketserver, sys, threading, wsgiref.simple_server
from service import app

class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    request_queue_size = 64

server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, Server)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
print(f"listens at http://127.0.0.1:{server.server_port}", file=sys.stderr)
server.serve_forever()
server.server_close()
"""

GUNICORN = "-m", "gunicorn", "--no-control-socket", "-b", "127.0.0.1:0", "service:app"
SERVE = "-m", "dhaga", "serve", "--bind", "127.0.0.1:0", "service:app"
WAYS = {
    "gunicorn's gthread": (*GUNICORN, "-k", "gthread", "--threads", str(REQUESTS)),
    "gunicorn": (*GUNICORN, "-k", "dhaga.integrations.gunicorn.Worker"),
    "serve": SERVE,
    "serve, two threads": (*SERVE, "--threads", "2"),
    "a program": ("-m", "dhaga", "program.py"),
    "a program of gevent": ("-m", "dhaga", "--as", "gevent", "program.py"),
}


class Collector(http.server.ThreadingHTTPServer):
    """A slow collector, which counts the received items by kind."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Post)
        self.received: Counter[str] = Counter()


class Post(http.server.BaseHTTPRequestHandler):
    """A request to the collector."""

    server: Collector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.01)
        if self.path.endswith("/envelope/"):
            self.server.received["messages"] += self.messages_in(data)
        else:
            self.server.received[self.path.strip("/")] += len(json.loads(data))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def messages_in(self, data: bytes) -> int:
        """Return how many messages an envelope of Sentry has."""
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        return data.count(b'"type":"event"')

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


@pytest.mark.once
@pytest.mark.long("starts a service, which imports exporters, and drains it")
@pytest.mark.parametrize("way", WAYS)
def test_a_service_that_is_told_to_end_loses_nothing_that_its_exporters_hold(way: str, tmp_path: pathlib.Path) -> None:
    for package in ("opentelemetry.sdk", "sentry_sdk", *(["gunicorn"] if "gunicorn" in way else [])):
        if importlib.util.find_spec(package.partition(".")[0]) is None:  # an import would bring eventlet's fork hook
            pytest.skip(f"{package} is not installed")
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "program.py").write_text(PROGRAM)
    with collecting() as collector, contextlib.ExitStack() as stack:
        environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "COLLECTOR": f"127.0.0.1:{collector.server_port}"}
        running = stack.enter_context(Running(tmp_path, *WAYS[way], **environment))
        (port,) = running.wait_for(r"[Ll]isten(?:s|ing) at:? http://127.0.0.1:([0-9]+)")
        clients = [socket.create_connection(("127.0.0.1", int(port)), PATIENCE) for _ in range(REQUESTS)]
        for number, client in enumerate(clients):
            client.sendall(b"GET /?%d HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n" % number)
        running.wait_for("a request has begun", REQUESTS)
        running.signal(signal.SIGTERM)
        (tmp_path / "told to end").touch()
        for client in clients:
            with client:  # closed at once: gunicorn waits for that
                assert b" 200 " in client.recv(1000)
        assert running.end() == 0
    assert collector.received == {"spans": REQUESTS, "messages": REQUESTS, "lines": REQUESTS}
