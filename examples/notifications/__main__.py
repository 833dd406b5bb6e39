"""The command line of the server: python -m examples.notifications.

Exit status: 0 stopped by SIGTERM or Ctrl-C; 1 it cannot serve; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import logging
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from .broker import DEFAULTS
from .runtime import threading
from .service import HEARTBEAT
from .settings import Settings
from .tokens import Tokens

PORT: Final = 8000
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def at_least_one(text: str) -> int:
    """Read a positive whole number."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def port(text: str) -> int:
    """Read a port; 0 is any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: write a number from 0 to 65535")
    return int(text)


def seconds(text: str) -> float:
    """Read a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds: write one like 15 or 0.5")
    return value


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="python -m examples.notifications", description="Serve notifications.")
    top.add_argument("--host", default="127.0.0.1")
    top.add_argument("--port", type=port, default=PORT, help="of HTTP")
    top.add_argument("--line-port", type=port, help="of the line protocol; by default the next one")
    top.add_argument("--redis", metavar="URL", help="join all servers at this Redis")
    top.add_argument("--stream", default="notifications", help="the key at Redis (default: %(default)s)")
    tokens = top.add_mutually_exclusive_group()
    tokens.add_argument("--tokens", metavar="FILE", type=Path, help="of lines TOKEN:NAME; who has none may not come")
    tokens.add_argument("--token", help="one token for all")
    top.add_argument("--clients", type=at_least_one, default=Settings.clients, help="at most so many at each port")
    top.add_argument("--history", type=at_least_one, default=DEFAULTS.history, help="messages kept of a topic")
    top.add_argument("--queue", type=at_least_one, default=DEFAULTS.queue, help="messages a client may be behind")
    top.add_argument("--slow", choices=["disconnect", "drop"], default="disconnect", help="what befalls slower ones")
    top.add_argument("--heartbeat", type=seconds, default=HEARTBEAT, metavar="SECONDS")
    return top


def settings_of(options: argparse.Namespace) -> Settings:
    """Make settings of the command line. Raises: OSError, ValueError."""
    tokens = Tokens.read(options.tokens) if options.tokens else None
    if options.token:
        tokens = Tokens({options.token: "client"})
    if tokens is None and options.host not in LOOPBACK:
        raise ValueError(f"serving {options.host} to all: set --token or --tokens")
    following = options.port + 1 if options.port else 0
    return Settings(
        host=options.host,
        port=options.port,
        line_port=following if options.line_port is None else options.line_port,
        clients=options.clients,
        limits=replace(DEFAULTS, history=options.history, queue=options.queue),
        tokens=tokens,
        policy=options.slow,
        heartbeat=options.heartbeat,
        redis=options.redis,
        stream=options.stream,
    )


def serve(settings: Settings) -> None:
    """Serve until a signal comes."""
    from .server import NotificationServer  # here, as it needs packages that --help does without

    stopped = threading.Event()
    with NotificationServer(settings) as server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        if settings.tokens is None:
            print("every user of this machine may publish and listen: --token keeps them out", file=sys.stderr)
        print(addresses(server), flush=True)
        stopped.wait()


def addresses(server: Any) -> str:
    """Say where what is served, and how to publish and to wait there."""
    (host, port), (line_host, line_port) = server.address, server.line_address
    url, token = f"http://{host}:{port}/", " -H 'Authorization: Bearer TOKEN'" if server.settings.tokens else ""
    lines = [
        ("page", url),
        ("publish", f"curl -d 'hello'{token} {url}topics/news"),
        ("listen", f"curl -N{token} '{url}events?topic=news'   (or /poll, or a WebSocket at /socket)"),
        ("lines", f"{line_host}:{line_port}   (a line protocol over TCP: nc {line_host} {line_port}, then SUB news)"),
    ]
    return "\n".join(f"{what + ':':9}{where}" for what, where in lines)


def raise_descriptor_limit() -> None:
    """Allow as many open files as the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; give the exit status."""
    options: Any = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    raise_descriptor_limit()
    try:
        serve(settings_of(options))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
