"""Many clients at once: python -m examples.notifications.client --clients 10000 --kind sse --url http://127.0.0.1:8000.

It opens the connections, posts messages that tell when they were posted, and reports after how long they arrived. Both
ends of a latency are read from one monotonic clock: run it on the server's machine.
Exit status: 0 all messages have arrived; 1 some have not.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time as clock
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from dhaga.http import HTTPClient

from .__main__ import at_least_one, raise_descriptor_limit, seconds
from .client_protocols import PROTOCOLS, Heard
from .listener import Endpoint, Listener, start
from .runtime import socket, threading, time

AT_ONCE: Final = 200
"""Connections that begin at once: fewer than the server's backlog."""

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class ListenerGroup:
    """N listeners to one topic, and the latencies of what they got."""

    def __init__(self, place: Endpoint, count: int) -> None:
        self.topic = f"load-{os.getpid()}"
        self.place = place
        self.latencies: list[float] = []
        self.listeners = [Listener([place], self.topic, self.take) for _ in range(count)]
        self.threads: list[Any] = []

    def __repr__(self) -> str:
        return f"<ListenerGroup of {len(self.listeners)} on {self.topic}, {len(self.latencies)} messages have arrived>"

    def take(self, message: Heard) -> None:
        """Note how long a message took."""
        self.latencies.append(clock.monotonic() - float(message["data"].split()[0]))

    def connect(self, timeout: float) -> int:
        """Open the connections. Parks: until all are there, at most so long. Returns: how many are."""
        gate = threading.Semaphore(AT_ONCE)
        self.threads = [start(listener, gate) for listener in self.listeners]
        self.wait(lambda: self.ready() == len(self.listeners), timeout)
        return self.ready()

    def ready(self) -> int:
        return sum(listener.ready for listener in self.listeners)

    def wait(self, done: Any, timeout: float) -> None:
        deadline = clock.monotonic() + timeout
        while not done() and clock.monotonic() < deadline:
            time.sleep(0.02)

    def measure(self, messages: int, rate: float, size: int, timeout: float) -> None:
        """Post messages, so many a second. Parks: until all have arrived everywhere, at most so long after the last."""
        post = poster(self.place, self.topic)
        begin = clock.monotonic()
        for number in range(messages):
            time.sleep(max(0.0, begin + number / rate - clock.monotonic()))
            post(f"{clock.monotonic():.6f} ".ljust(size, "."))
        self.wait(lambda: len(self.latencies) >= messages * len(self.listeners), timeout)

    def leave(self) -> None:
        """End the connections. Parks: until they have ended."""
        for listener in self.listeners:
            listener.stop()
        for thread in self.threads:
            thread.join()

    def report(self, messages: int) -> dict[str, Any]:
        """Tell what has come of it; latencies are in seconds."""
        latencies = sorted(self.latencies)
        return {
            "clients": len(self.listeners),
            "expected": messages * len(self.listeners),
            "delivered": len(latencies),
            "reconnects": sum(listener.connections - 1 for listener in self.listeners if listener.connections),
            "gaps": sum(listener.gaps for listener in self.listeners),
            "latency": {name: at(latencies, share) for name, share in SHARES.items()},
            "cpu": clock.process_time(),
        }


def at(ordered: list[float], share: float) -> float | None:
    """Give the value that a share of all does not exceed."""
    return ordered[max(0, min(len(ordered) - 1, round(share * len(ordered)) - 1))] if ordered else None


def poster(place: Endpoint, topic: str) -> Any:
    """Return a function that posts a text to a topic, through the line protocol or over HTTP."""
    if place.kind == "tcp":
        return line_poster(place, topic)
    headers = {"Authorization": f"Bearer {place.token}"} if place.token else {}
    url = f"http://{place.host}:{place.port}/topics/{topic}"
    return lambda text: HTTPClient().fetch(url, method="POST", body=text, headers=headers)


def line_poster(place: Endpoint, topic: str) -> Any:
    sock = socket.create_connection((place.host, place.port))
    if place.token:
        sock.sendall(f"AUTH {place.token}\n".encode())
        sock.recv(1000)

    def post(text: str) -> None:
        sock.sendall(f"PUB {topic} {text}\n".encode())
        answer = sock.recv(1000)
        if not answer.startswith(b"OK"):
            raise ConnectionError(answer.decode(errors="replace").strip() or "the server has closed the connection")

    return post


def place_of(url: str, kind: str, token: str) -> Endpoint:
    """Read where the endpoint is: http://HOST:PORT; for lines the port is theirs."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise SystemExit(f"error: {url!r} is no address: write http://HOST:PORT")
    return Endpoint(kind, host, port, token)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="python -m examples.notifications.client", description="Listen, many times.")
    top.add_argument("--clients", type=at_least_one, default=100)
    top.add_argument("--url", default="http://127.0.0.1:8000", help="for tcp, the port of lines: the next one")
    top.add_argument("--kind", choices=sorted(PROTOCOLS), default="sse")
    top.add_argument("--token", default="")
    top.add_argument("--messages", type=at_least_one, default=10)
    top.add_argument("--rate", type=seconds, default=1.0, help="messages a second")
    top.add_argument("--size", type=at_least_one, default=64, help="bytes of a message")
    top.add_argument("--timeout", type=seconds, default=60.0, help="for connecting, and for the last messages")
    top.add_argument("--json", action="store_true", help="two lines: once connected, and in the end")
    return top


def show(report: dict[str, Any], connected: int) -> None:
    """Print a report for people."""
    print(f"connected   {connected} of {report['clients']}, {report['reconnects']} came back, {report['gaps']} gaps")
    print(f"delivered   {report['delivered']} of {report['expected']}")
    times = (f"{name} {value * 1000:.1f}" for name, value in report["latency"].items() if value is not None)
    print(f"latency/ms  {', '.join(times)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the clients; give the exit status."""
    options = parser().parse_args(arguments)
    raise_descriptor_limit()
    group = ListenerGroup(place_of(options.url, options.kind, options.token), options.clients)
    connected = group.connect(options.timeout)
    if not connected:
        print(f"error: {group.listeners[0].error or 'no connection'}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"connected": connected}), flush=True)
    group.measure(options.messages, options.rate, options.size, options.timeout)
    report = group.report(options.messages)
    group.leave()
    if options.json:
        print(json.dumps(report))
    else:
        show(report, connected)
    return 0 if report["delivered"] >= report["expected"] else 1


if __name__ == "__main__":
    sys.exit(main())
