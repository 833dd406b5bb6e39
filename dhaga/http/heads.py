"""What the head of a request says, put into a WSGI environ: the target and the fields.

What comes in here has passed the parser: each field is one line, of a name, a colon and a value. Not here: what the
fields mean for the connection (``messages.py``).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from .limits import bad

HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
AUTHORITY = re.compile(r"(?:\[.*\]|[^:]+):[0-9]+")
ABSOLUTE = re.compile(r"[Hh][Tt][Tt][Pp][Ss]?://([^/?]+)(.*)")

ONCE = {"HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"}
"""Fields that say one thing: twice they say two, of which two programs may choose differently."""

BARE = "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"
"""Keys that WSGI, as CGI, knows without their beginning."""

CACHE = 1024
"""Names and hosts that are remembered; beyond, as only an attack has, each is looked at anew."""


class Keys(dict[str, str | None]):
    """The environ's key of each field name; None: not for the app.

    A name with an underscore would get the key of the one with a hyphen, and so pass for a field that a proxy in front
    checks or sets (``X_Forwarded_For``). ``Proxy`` would become HTTP_PROXY, which clients take for a setting (httpoxy).
    """

    def __missing__(self, name: str) -> str | None:
        upper = name.upper()
        key = f"HTTP_{upper.replace('-', '_')}"
        found = None if "_" in upper or upper == "PROXY" else key.removeprefix("HTTP_") if key in BARE else key
        if len(self) < CACHE:
            self[name] = found
        return found


keys = Keys()
hosts: set[str] = set()
"""Those that have been looked at."""


def take_fields(environ: dict[str, Any], lines: list[str]) -> None:
    """Put fields into an environ. Raises: Refusal if one is given twice that must not be."""
    for line in lines:
        name, _, value = line.partition(":")
        key = keys[name]
        if key is None:
            continue
        value = value.strip(" \t")
        if key not in environ:
            environ[key] = value
        elif key in ONCE:
            raise bad(f"{name} is given twice")
        else:
            environ[key] += ("; " if key == "HTTP_COOKIE" else ", ") + value


def take_target(environ: dict[str, Any], target: str) -> None:
    """Put the request target into an environ: a path, a URL, ``*`` or an authority (RFC 9112, 3.2). Raises: Refusal."""
    environ["REQUEST_URI"] = target
    if target[0] != "/" or environ["REQUEST_METHOD"] == "CONNECT":
        target = path_of(environ, target)
    path, _, query = target.partition("?")
    environ["QUERY_STRING"] = query
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path


def path_of(environ: dict[str, Any], target: str) -> str:
    """Return the path and query of a target that is not just these. Raises: Refusal."""
    method = environ["REQUEST_METHOD"]
    if method == "CONNECT" and AUTHORITY.fullmatch(target):
        check_host(target)
        return ""
    if target == "*" and method == "OPTIONS":
        return ""
    url = ABSOLUTE.fullmatch(target)
    if url is None or method == "CONNECT":
        raise bad("the request target is malformed")
    authority, path = url.groups()
    check_host(authority)
    if "HTTP_HOST" in environ:
        environ["HTTP_HOST"] = authority  # RFC 9112, 3.2.2: it counts instead of Host
    return path if path.startswith("/") else "/" + path


def check_host(host: str) -> None:
    """Raises: Refusal for what is no host, or no port behind it."""
    if not HOST.fullmatch(host):
        raise bad(f"Host: {host!r}")
    if len(hosts) < CACHE:
        hosts.add(host)
