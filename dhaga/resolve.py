"""Names and addresses of the network: the standard look-ups, made in an OS thread while the calling dhaga is parked.

What is numeric already is answered at once. These are the functions of ``dhaga.socket``; connections are made there.
"""

from __future__ import annotations

import _socket
import socket as standard
from typing import Any

from .offload import offload

# The standard library's own, taken before anybody can patch them.
look_up_address = standard.getaddrinfo
look_up_full_name = standard.getfqdn

NUMERIC_NAME = standard.NI_NUMERICHOST | standard.NI_NUMERICSERV


def is_numeric(host: Any) -> bool:
    """Tell whether a host is an address already, such as ``127.0.0.1`` or ``fe80::1%lo``."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("latin-1")
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            _socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):
            continue
        return True
    return False


def needs_look_up(host: Any) -> bool:
    """Tell whether to ask the system about a host may take long; what is no host at all it refuses at once."""
    return bool(host) and isinstance(host, (str, bytes, bytearray)) and not is_numeric(host)


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """Look addresses up. Parks: ``offload``, unless the host is numeric. Source: ``socket.getaddrinfo``."""
    if needs_look_up(host):
        return offload(look_up_address, host, port, family, type, proto, flags)
    return look_up_address(host, port, family, type, proto, flags)


def gethostbyname(hostname: str, /) -> str:
    """Look an IPv4 address up. Parks: ``offload``, unless it is numeric. Source: ``socket.gethostbyname``."""
    if needs_look_up(hostname):
        return offload(_socket.gethostbyname, hostname)
    return _socket.gethostbyname(hostname)


def gethostbyname_ex(hostname: str, /) -> tuple[str, list[str], list[str]]:
    """Look names and IPv4 addresses up. Parks: ``offload``. Source: ``socket.gethostbyname_ex``."""
    return offload(_socket.gethostbyname_ex, hostname)


def gethostbyaddr(address: str, /) -> tuple[str, list[str], list[str]]:
    """Look a host up by its address. Parks: ``offload``. Source: ``socket.gethostbyaddr``."""
    return offload(_socket.gethostbyaddr, address)


def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:
    """Look the name of an address up. Parks: ``offload``, unless numbers are wanted. Source: ``socket.getnameinfo``."""
    if isinstance(flags, int) and flags & NUMERIC_NAME == NUMERIC_NAME:
        return _socket.getnameinfo(sockaddr, flags)
    return offload(_socket.getnameinfo, sockaddr, flags)


def getfqdn(name: str = "") -> str:
    """Look the full name of a host up. Parks: ``offload``. Source: ``socket.getfqdn``."""
    return offload(look_up_full_name, name)


def resolved(family: int, address: Any) -> Any:
    """Return an address of the internet families with its host's name looked up; any other as it is.

    Parks: ``offload``, if there is a name. The port is left to whoever uses the address, to be refused there if wrong.
    """
    if family not in (_socket.AF_INET, _socket.AF_INET6) or not isinstance(address, tuple) or len(address) < 2:
        return address
    host, port, *rest = address
    if host == "<broadcast>" or not needs_look_up(host):
        return address
    found = offload(look_up_address, host, None, family, _socket.SOCK_DGRAM)[0][4]
    return (found[0], port, *(rest or found[2:]))
