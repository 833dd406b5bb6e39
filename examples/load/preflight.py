"""Is there a server at a URL? Asked before a test, so that what cannot work is told at once."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from dhaga import socket

from .error_labels import said

PORTS = {"http": 80, "https": 443}


class Unreachable(Exception):
    """There is no server to be tested."""


def checked(url: str) -> str:
    """Return a URL as it is to be asked for. Raises: ValueError."""
    parts = parsed(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is no URL of a web server: write it like http://localhost:8000/")
    return parts._replace(path=parts.path or "/", fragment="").geturl()


def parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # which raises if it is no number
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL: {error}") from error
    return parts


def look(url: str, timeout: float) -> None:
    """Connect once, and hang up. Parks: meanwhile. Raises: Unreachable."""
    parts = urlsplit(url)
    place = (parts.hostname or "", parts.port or PORTS[parts.scheme])
    try:
        socket.create_connection(place, timeout).close()
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"no server to test at {place[0]} port {place[1]}: {said(error)}") from error
