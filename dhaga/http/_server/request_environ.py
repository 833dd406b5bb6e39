"""WSGI environs: a server's part, and a request's fields, target and host. Framing: ``request_parser``."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from ..limits import bad

HOST_PATTERN = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
AUTHORITY_PATTERN = re.compile(r"(?:\[.*\]|[^:]+):[0-9]+")
URL_PATTERN = re.compile(r"[Hh][Tt][Tt][Pp][Ss]?://([^/?]+)(.*)")

SINGLETON_FIELDS = {"HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"}
"""Fields with a single value. A repeated one is refused: of two values, two programs may choose different ones."""

UNPREFIXED_KEYS = "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"
"""Fields whose keys in WSGI, as in CGI, have no prefix HTTP_."""

CACHE_SIZE = 1024
"""Names and hosts that are cached. Only an attack sends more; further ones are checked each time."""


class EnvironKeys(dict[str, str | None]):
    """The environ key of each field name; None: hidden from the app.

    A name with an underscore would get the same key as the name with a hyphen, and so could imitate a field that a
    proxy in front checks or sets (``X_Forwarded_For``). ``Proxy`` would become HTTP_PROXY, a setting of HTTP clients
    (httpoxy).
    """

    def __missing__(self, name: str) -> str | None:
        upper = name.upper()
        key = f"HTTP_{upper.replace('-', '_')}"
        found = (
            None if "_" in upper or upper == "PROXY" else key.removeprefix("HTTP_") if key in UNPREFIXED_KEYS else key
        )
        if len(self) < CACHE_SIZE:
            self[name] = found
        return found


environ_keys = EnvironKeys()
valid_hosts: set[str] = set()
"""Values of Host that have passed ``check_host``."""


def server_environ(software: str, address: Any, secure: bool, errors: Any, **more: Any) -> dict[str, Any]:
    """Return the part of an environ that is the same for all requests at an address (PEP 3333).

    ``address``: host and port, or the path of a Unix socket; ``errors``: the file ``wsgi.errors``.
    """
    host, port = address[:2] if isinstance(address, tuple) else ("localhost", 443 if secure else 80)
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_SOFTWARE": software,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if secure else "http",
        "wsgi.errors": errors,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
        **more,
    }


def add_fields(environ: dict[str, Any], lines: list[str]) -> None:
    """Put fields into an environ. Raises: Refusal for a repeated field that must have a single value."""
    for line in lines:
        name, _, value = line.partition(":")
        key = environ_keys[name]
        if key is None:
            continue
        value = value.strip(" \t")
        if key not in environ:
            environ[key] = value
        elif key in SINGLETON_FIELDS:
            raise bad(f"{name} is given twice")
        else:
            environ[key] += ("; " if key == "HTTP_COOKIE" else ", ") + value


def set_target(environ: dict[str, Any], target: str) -> None:
    """Put the request target into an environ: a path, a URL, ``*`` or an authority (RFC 9112, 3.2). Raises: Refusal."""
    environ["REQUEST_URI"] = target
    if target[0] != "/" or environ["REQUEST_METHOD"] == "CONNECT":
        target = path_of_target(environ, target)
    path, _, query = target.partition("?")
    environ["QUERY_STRING"] = query
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path


def path_of_target(environ: dict[str, Any], target: str) -> str:
    """Return path and query of a target that is not a plain path. Raises: Refusal."""
    method = environ["REQUEST_METHOD"]
    if method == "CONNECT" and AUTHORITY_PATTERN.fullmatch(target):
        check_host(target)
        return ""
    if target == "*" and method == "OPTIONS":
        return ""
    url = URL_PATTERN.fullmatch(target)
    if url is None or method == "CONNECT":
        raise bad("the request target is malformed")
    authority, path = url.groups()
    check_host(authority)
    if "HTTP_HOST" in environ:
        environ["HTTP_HOST"] = authority  # RFC 9112, 3.2.2: it overrides Host
    return path if path.startswith("/") else "/" + path


def check_host(host: str) -> None:
    """Validate a Host header. Raises: Refusal if the host or the port is malformed."""
    if not HOST_PATTERN.fullmatch(host):
        raise bad(f"Host: {host!r}")
    if len(valid_hosts) < CACHE_SIZE:
        valid_hosts.add(host)
