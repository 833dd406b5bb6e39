"""Names: ``getaddrinfo`` and related functions, which look names up among the hosts of the simulation.

Dhaga calls them through ``outside.names_of_caller``, which a simulation replaces.
"""

from __future__ import annotations

import _socket
import socket as standard
from typing import TYPE_CHECKING, Any

from ..._iowait import dns
from ...monkey._rebind import Replacement
from .._base.here import found_network, network_of_caller
from ..disk import own_calls
from ._hosts import ANY, Host, canonical, is_loopback

if TYPE_CHECKING:
    from ._network import Network

SERVICES: dict[Any, int] = {"http": 80, "https": 443, "ftp": 21, "smtp": 25, "domain": 53}


def numeric(network: Network, host: Any, family: int = standard.AF_INET) -> str:
    """Return the address of a host, for a socket of a family: for IPv6, perhaps an IPv4 address to be mapped.

    Raises: TypeError, gaierror, NotSimulated.
    """
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("idna")
    if not isinstance(host, str):
        raise TypeError(f"str, bytes or bytearray expected, not {type(host).__name__}")
    if not host:
        return "::" if family == standard.AF_INET6 else "0.0.0.0"
    if host in ("<broadcast>", "255.255.255.255"):
        raise network.not_simulated(f"sendto({host!r})", "there is no broadcast")
    address = literal(host)
    if address is None:
        address = address_of(network, host, family)
    elif (":" in host) != (family == standard.AF_INET6):
        raise other_family()
    if ":" in address and family != standard.AF_INET6:
        raise other_family()
    return address


def other_family() -> standard.gaierror:
    return standard.gaierror(standard.EAI_ADDRFAMILY, "Address family for hostname not supported")


def literal(host: str) -> str | None:
    """Return an IP address in its canonical form, or None for a name."""
    try:
        return canonical(host)
    except ValueError:
        return None


def address_of(network: Network, name: str, family: int) -> str:
    """Return the address of the host with a name. Raises: NotSimulated."""
    if name.lower().rstrip(".") in ("localhost", "ip6-localhost"):
        return "::1" if family == standard.AF_INET6 else "127.0.0.1"
    try:
        return network.hosts.find(name.rstrip(".")).address
    except ValueError:
        if network.allows_real:
            return str(dns.look_ups.offload(_socket.gethostbyname, name))
        raise network.not_simulated(f"getaddrinfo({name!r})", f"no host of the simulation is named {name}") from None


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """Return the addresses of a host of the simulation. Source: ``socket.getaddrinfo``."""
    network = found_network()
    # Without a host, look up only the IPv4 address, as for the hosts of the simulation.
    asked = family or (standard.AF_INET if host is None and port is not None else 0)
    name = ""
    try:
        found = numeric_look_up(host, port, asked, type, proto, flags)
    except standard.gaierror as error:
        name = host.decode("idna") if isinstance(host, (bytes, bytearray)) else host
        is_name = bool(name) and not flags & standard.AI_NUMERICHOST and literal(name) is None
        if error.errno != standard.EAI_NONAME or not is_name:
            raise
        address = address_of(network, name, family)
        if family == standard.AF_INET6 and ":" not in address:
            address = f"::ffff:{address}"
        found = numeric_look_up(address, port, family, type, proto, flags)
    # Raw sockets are not simulated.
    return [
        (*each[:3], each[3] and (name or each[3]), each[4]) for each in found if type or each[1] != standard.SOCK_RAW
    ]


def numeric_look_up(host: Any, port: Any, family: int, type: int, proto: int, flags: int) -> list[Any]:
    """Call the real function for an address, because this call asks no other machine. Raises: gaierror for a name."""
    flags = flags & ~standard.AI_ADDRCONFIG | standard.AI_NUMERICHOST
    if not flags & standard.AI_NUMERICSERV:
        port = SERVICES.get(port, port)  # the machine may have no list of services
    with own_calls():
        return dns.standard_getaddrinfo(host, port, family, type, proto, flags)


getaddrinfo_at_once = getaddrinfo


def gethostbyname(hostname: str, /) -> str:
    """Return the address of a host of the simulation. Source: ``socket.gethostbyname``."""
    return numeric(found_network(), hostname)


def gethostbyname_ex(hostname: str, /) -> tuple[str, list[str], list[str]]:
    """Return the name and address of a host of the simulation. Source: ``socket.gethostbyname_ex``."""
    return hostname, [], [numeric(found_network(), hostname)]


def gethostbyaddr(address: str, /) -> tuple[str, list[str], list[str]]:
    """Return the name of the simulated host at an address, with the address. Source: ``socket.gethostbyaddr``."""
    network = found_network()
    found = literal(address) or numeric(network, address)
    return name_at(network, found), [], [found]


def name_at(network: Network, address: str) -> str:
    if is_loopback(address) or address in ANY:
        return "localhost"
    host: Host | None = network.hosts.by_address.get(address)
    if host is None:
        raise standard.herror(1, "Unknown host")
    return host.name


def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:
    """Return the names of the simulated host and of the service at an address. Source: ``socket.getnameinfo``."""
    network = found_network()
    if flags & standard.NI_NUMERICHOST:
        with own_calls():
            return _socket.getnameinfo(sockaddr, flags)
    with own_calls():
        address, service = _socket.getnameinfo(sockaddr, flags & ~standard.NI_NAMEREQD | standard.NI_NUMERICHOST)
    try:
        return name_at(network, canonical(address)), service
    except standard.herror:
        if flags & standard.NI_NAMEREQD:
            raise standard.gaierror(standard.EAI_NONAME, "Name or service not known") from None
        return address, service


def getfqdn(name: str = "") -> str:
    """Return the full name of a host of the simulation. Source: ``socket.getfqdn``."""
    network = found_network()
    if not name or name in ANY:
        return network.hosts.of_caller().name
    try:
        return name_at(network, canonical(name))
    except (ValueError, standard.herror):
        return name


def gethostname() -> str:
    """Return the name of the caller's host. Source: ``socket.gethostname``."""
    network = network_of_caller()
    return standard_gethostname() if network is None else network.hosts.of_caller().name


standard_gethostname = standard.gethostname

REPLACED = [Replacement(standard, "gethostname", gethostname, standard_gethostname)]
"""The replacement for ``socket.gethostname``, for which ``dhaga.socket`` has no function of its own."""
