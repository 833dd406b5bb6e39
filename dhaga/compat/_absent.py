"""Modules of gevent and eventlet that are not here on purpose: their import names the way."""

from __future__ import annotations

from typing import NoReturn

ABSENT = {
    "eventlet.support.greendns": (
        "names are resolved in OS threads here, by the system's own resolver, while the caller is parked: call "
        "dhaga.socket.getaddrinfo, or leave greendns out"
    ),
    "eventlet.zipkin": (
        "dhaga.debug.trace() records the turns of all microthreads, and OpenTelemetry follows requests; eventlet's "
        "own tracing is not here"
    ),
}


def refuse_absent(name: str) -> None:
    """Raise ImportError for a module that is absent on purpose, by its foreign name."""
    if name in ABSENT:
        raise ImportError(f"there is no {name} here: {ABSENT[name]}", name=name)


def raise_missing(module: str, name: str) -> NoReturn:
    """Raise what a module's ``__getattr__`` raises: ImportError for an absent module, else AttributeError."""
    refuse_absent(f"{module.removeprefix(f'{__package__}.')}.{name}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
