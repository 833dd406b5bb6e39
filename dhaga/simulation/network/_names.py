"""Names: the hosts of the simulation answer ``getaddrinfo`` and its kin, by the door ``outside.names_of_caller``."""

from __future__ import annotations

import _socket
import socket as standard
from typing import TYPE_CHECKING, Any

from ..._iowait import dns
from ...monkey._rebind import Replacement
from .._base.here import found_network, network_of_caller
from ._hosts import ANY, Host, canonical, is_loopback

if TYPE_CHECKING:
    from ._network import Network

SERVICES = {"http": 80, "https": 443, "ftp": 21, "smtp": 25, "domain": 53}


def numeric(network: Network, host: Any) -> str:
    """Return the address of a host. Raises: gaierror, NotSimulated."""
    if isinstance(host, (bytes, bytearray)):
        host = host.decode("idna")
    if host in ("", None):
        return "0.0.0.0"
    if host == "<broadcast>" or host == "255.255.255.255":
        raise network.not_simulated(f"sendto({host!r})", "there is no broadcast")
    return address_of(network, host)


def address_of(network: Network, host: str) -> str:
    try:
        return canonical(host)
    except ValueError:
        pass
    if host in ("localhost", "ip6-localhost"):
        return "127.0.0.1"
    try:
        return network.hosts.find(host.rstrip(".")).address
    except ValueError:
        if network.allows_real:
            return str(dns.look_ups.offload(_socket.gethostbyname, host))
        raise network.not_simulated(f"getaddrinfo({host!r})", f"no host of the simulation is named {host}") from None


def port_of(service: Any) -> int:
    if service is None or service == "":
        return 0
    if isinstance(service, (bytes, bytearray)):
        service = service.decode()
    if isinstance(service, int) or service.isdecimal():
        return int(service)
    if service in SERVICES:
        return SERVICES[service]
    return standard.getservbyname(service)


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """Resolve a host of the simulation. Source: ``socket.getaddrinfo``."""
    network = found_network()
    if host in (None, ""):
        address = "0.0.0.0" if flags & standard.AI_PASSIVE else "127.0.0.1"
    else:
        address = numeric(network, host)
    number = port_of(port)
    if flags & standard.AI_NUMERICHOST and isinstance(host, str) and host != address and ":" not in host:
        raise standard.gaierror(standard.EAI_NONAME, "Name or service not known")
    if family == standard.AF_INET6 and ":" not in address:
        address = {"0.0.0.0": "::", "127.0.0.1": "::1"}.get(address, f"::ffff:{address}")
    if family == standard.AF_INET and ":" in address:
        raise standard.gaierror(standard.EAI_ADDRFAMILY, "Address family for hostname not supported")
    kind = standard.AF_INET6 if ":" in address else standard.AF_INET
    target = (address, number, 0, 0) if kind == standard.AF_INET6 else (address, number)
    name = host if flags & standard.AI_CANONNAME and isinstance(host, str) else ""
    return [
        (kind, each, protocol, name, target)
        for each, protocol in (
            (standard.SOCK_STREAM, standard.IPPROTO_TCP),
            (standard.SOCK_DGRAM, standard.IPPROTO_UDP),
        )
        if type in (0, each) and proto in (0, protocol)
    ]


getaddrinfo_at_once = getaddrinfo


def gethostbyname(hostname: str, /) -> str:
    """Return the address of a host of the simulation. Source: ``socket.gethostbyname``."""
    return numeric(found_network(), hostname)


def gethostbyname_ex(hostname: str, /) -> tuple[str, list[str], list[str]]:
    """Return the name and address of a host of the simulation. Source: ``socket.gethostbyname_ex``."""
    return hostname, [], [numeric(found_network(), hostname)]


def gethostbyaddr(address: str, /) -> tuple[str, list[str], list[str]]:
    """Return the host of the simulation at an address. Source: ``socket.gethostbyaddr``."""
    network = found_network()
    found = numeric(network, address)
    return name_at(network, found), [], [found]


def name_at(network: Network, address: str) -> str:
    if is_loopback(address) or address in ANY:
        return "localhost"
    host: Host | None = network.hosts.by_address.get(address)
    if host is None:
        raise standard.herror(1, "Unknown host")
    return host.name


def getnameinfo(sockaddr: Any, flags: int, /) -> tuple[str, str]:
    """Return the name of the host of the simulation at an address. Source: ``socket.getnameinfo``."""
    network = found_network()
    address = numeric(network, sockaddr[0])
    return (address if flags & standard.NI_NUMERICHOST else name_at(network, address)), str(sockaddr[1])


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
"""The function of ``socket`` that Dhaga does not have."""
