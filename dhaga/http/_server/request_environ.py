"""Creation of WSGI environs: a request's target and header fields are checked, and converted to keys of PEP 3333."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from ..limits import bad

HOST_PATTERN = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
AUTHORITY_PATTERN = re.compile(r"(?:\[.*\]|[^:]+):[0-9]+")
URL_PATTERN = re.compile(r"[Hh][Tt][Tt][Pp][Ss]?://([^/?]+)(.*)")

SINGLETON_FIELDS = {"HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"}
"""Fields that must have a single value. Otherwise a proxy and the server could use different values."""

UNPREFIXED_KEYS = "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"
"""Fields whose keys in the environ have no prefix ``HTTP_``, as in CGI."""

CACHE_SIZE = 1024
"""Maximum number of cached names, and of cached hosts. Only an attacker sends more. The rest is not cached."""


class EnvironKeys(dict[str, str | None]):
    """The environ key of each field name, or None if the field is hidden from the app.

    Names with an underscore and the name ``Proxy`` are hidden. ``X_Forwarded_For`` would get the same key as
    ``X-Forwarded-For``, so that a client could forge a field that a proxy checks or sets. ``Proxy`` would get the key
    HTTP_PROXY, which HTTP clients read as a setting (the httpoxy attack).
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


REQUEST_KEYS = (
    *("REQUEST_METHOD", "REQUEST_URI", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL", "REMOTE_ADDR", "REMOTE_PORT"),
    *("wsgi.input", "dhaga.upgrade", "dhaga.disconnected", "werkzeug.socket", "gunicorn.socket"),
)
"""Keys that each request sets. A base environ also contains them, so that its copy has room for the request's fields.
Otherwise the copy would be resized twice.
"""

environ_keys = EnvironKeys()
valid_hosts: set[str] = set()
"""Values of Host that have passed ``check_host``."""


def server_environ(software: str, address: Any, secure: bool, errors: Any, **more: Any) -> dict[str, Any]:
    """Return the part of an environ that all requests to one address have in common (PEP 3333).

    ``address``: host and port, or the path of a Unix socket.
    ``errors``: the value of ``wsgi.errors``.
    ``more``: further keys and their values.
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
    """Add the fields of a head to an environ. Raises: Refusal if a field of ``SINGLETON_FIELDS`` is repeated."""
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
    """Add the request target to an environ. Raises: Refusal.

    A target is a path, a URL, ``*``, or host and port for CONNECT (RFC 9112, section 3.2).
    """
    environ["REQUEST_URI"] = target
    if target[0] != "/" or environ["REQUEST_METHOD"] == "CONNECT":
        target = path_of_target(environ, target)
    path, _, query = target.partition("?")
    environ["QUERY_STRING"] = query
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path


def path_of_target(environ: dict[str, Any], target: str) -> str:
    """Return the path and query of a target that does not begin with a slash, or of CONNECT. Raises: Refusal."""
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
        environ["HTTP_HOST"] = authority  # the URL overrides Host (RFC 9112, section 3.2.2)
    return path if path.startswith("/") else "/" + path


def check_host(host: str) -> None:
    """Validate a Host header. Raises: Refusal if the host or the port is malformed."""
    if not HOST_PATTERN.fullmatch(host):
        raise bad(f"Host: {host!r}")
    if len(valid_hosts) < CACHE_SIZE:
        valid_hosts.add(host)
