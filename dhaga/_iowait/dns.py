"""Name resolution: the standard library's lookups run in an OS thread while the calling dhaga is parked.

The lookups are still made by the C library, with nsswitch.conf, mDNS and similar sources. ``getaddrinfo`` and
``gethostbyname`` resolve numeric addresses in the calling thread. ``dhaga.socket`` exports these functions.
"""

from __future__ import annotations

import _socket
import functools
import socket as standard
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .._kernel import outside
from .._kernel.faces.stdlib_face import builtin_function
from .._workers.offload import SharedPool

F = TypeVar("F", bound=Callable[..., Any])

# The standard library's functions, taken before a patch can replace them.
standard_getaddrinfo: Callable[..., list[Any]] = standard.getaddrinfo
standard_getfqdn = standard.getfqdn

# This pool has its own threads, because a lookup takes 5 s or more if a name server does not answer. In the threads of
# ``offload``, 40 such lookups blocked all other offloaded calls for 5.9 s.
look_ups = SharedPool("dhaga-dns")

NUMERIC_NAME = standard.NI_NUMERICHOST | standard.NI_NUMERICSERV


def answerable(look_up: F) -> F:
    """Decorate a lookup so that a simulation can answer it with the simulation's own function of the same name."""

    @functools.wraps(look_up)
    def answer(*arguments: Any, **options: Any) -> Any:
        names_of_caller = outside.names_of_caller  # read once, because another OS thread may unset it
        names = None if names_of_caller is None else names_of_caller()
        return (look_up if names is None else getattr(names, look_up.__name__))(*arguments, **options)

    return cast(F, answer)


def is_numeric(host: Any) -> bool:
    """Return whether a host is a numeric address, such as ``127.0.0.1`` or ``fe80::1%lo``."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("latin-1")
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            # inet_pton refuses a scope such as ``%lo``, which getaddrinfo accepts.
            _socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return False


def needs_lookup(host: Any) -> bool:
    """Return whether resolving a host may block. An invalid host does not block: it causes an error at once."""
    return bool(host) and isinstance(host, (str, bytes, bytearray)) and not is_numeric(host)


@answerable
def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """Resolve a host to addresses. Parks: ``offload``, unless the host is numeric. Source: ``socket.getaddrinfo``."""
    if needs_lookup(host):
        return look_ups.offload(standard_getaddrinfo, host, port, family, type, proto, flags)
    return standard_getaddrinfo(host, port, family, type, proto, flags)


@answerable
def getaddrinfo_at_once(*arguments: Any, **options: Any) -> list[Any]:
    """Resolve a host in the calling OS thread, which may block. Source: ``socket.getaddrinfo``."""
    return standard_getaddrinfo(*arguments, **options)


@builtin_function
@answerable
def gethostbyname(hostname: str, /) -> str:
    """Resolve a host to an IPv4 address. Parks: ``offload`` for a name. Source: ``socket.gethostbyname``."""
    if needs_lookup(hostname):
        return look_ups.offload(_socket.gethostbyname, hostname)
    return _socket.gethostbyname(hostname)


@builtin_function
@answerable
def gethostbyname_ex(hostname: str, /) -> tuple[str, list[str], list[str]]:
    """Resolve a host to its names and IPv4 addresses. Parks: ``offload``. Source: ``socket.gethostbyname_ex``."""
    return look_ups.offload(_socket.gethostbyname_ex, hostname)


@builtin_function
@answerable
def gethostbyaddr(address: str, /) -> tuple[str, list[str], list[str]]:
    """Resolve an address to a host name. Parks: ``offload``. Source: ``socket.gethostbyaddr``."""
    return look_ups.offload(_socket.gethostbyaddr, address)


@builtin_function
@answerable
def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:
    """Resolve an address to names.

    Parks: ``offload``, unless ``flags`` request numbers. Source: ``socket.getnameinfo``.
    """
    if isinstance(flags, int) and flags & NUMERIC_NAME == NUMERIC_NAME:
        return _socket.getnameinfo(sockaddr, flags)
    return look_ups.offload(_socket.getnameinfo, sockaddr, flags)


@answerable
def getfqdn(name: str = "") -> str:
    """Return the fully qualified name of a host. Parks: ``offload``. Source: ``socket.getfqdn``."""
    return look_ups.offload(standard_getfqdn, name)


def resolve_address(family: int, address: Any) -> Any:
    """Return an Internet address with its host resolved, and any other address unchanged.

    Parks: ``offload``, if the host is a name. The port is not checked here, but by the caller's socket operation.
    """
    if family not in (_socket.AF_INET, _socket.AF_INET6) or not isinstance(address, tuple) or len(address) < 2:
        return address
    host, port, *rest = address
    # "<broadcast>" and "" need no lookup, because the C socket calls accept both.
    if host == "<broadcast>" or not needs_lookup(host):
        return address
    # The socket type limits the result to one entry per address. The result does not depend on the port.
    found = getaddrinfo(host, None, family, _socket.SOCK_DGRAM)[0][4]
    return (found[0], port, *(rest or found[2:]))
