"""The names of a simulated network: what ``socket`` answers about hosts."""

from __future__ import annotations

import _socket
import socket
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from dhaga import socket as dhaga_socket
from dhaga._iowait import dns
from dhaga.simulation import Simulation
from dhaga.simulation._standard import standard

STREAM = socket.SOCK_STREAM


def test_getaddrinfo_answers_with_the_hosts_of_the_simulation() -> None:
    tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    with Simulation(1) as world:
        world.network.host("api.example.com", "10.1.2.3")
        world.network.alias("api", "api.example.com")
        assert socket.getaddrinfo("api", "https", type=socket.SOCK_STREAM) == [(*tcp, ("10.1.2.3", 443))]
        assert socket.getaddrinfo("localhost", 1, type=socket.SOCK_STREAM) == [(*tcp, ("127.0.0.1", 1))]
        assert socket.getaddrinfo(None, 1, socket.AF_INET6, socket.SOCK_STREAM)[0][4] == ("::1", 1, 0, 0)
        assert socket.getnameinfo(("10.1.2.3", 80), socket.NI_NUMERICSERV) == ("api.example.com", "80")
        assert socket.getfqdn("10.1.2.3") == "api.example.com"
        assert socket.gethostbyname_ex("api") == ("api", [], ["10.1.2.3"])
        with pytest.raises(socket.herror):
            socket.gethostbyaddr("10.9.9.9")


@pytest.mark.parametrize("name", ["API.example.COM", "Api", "api.example.com.", b"API"])
def test_a_name_has_no_case_and_may_end_in_a_dot(name: Any) -> None:
    with Simulation(1) as world:
        world.network.host("Api.Example.com", "10.1.2.3")
        world.network.alias("api", "api.example.com")
        assert socket.gethostbyname(name) == socket.getaddrinfo(name, 80)[0][4][0] == "10.1.2.3"
        assert socket.gethostbyname("LocalHost") == socket.gethostbyname("localhost.") == "127.0.0.1"
        for add in (world.network.host, lambda name: world.network.alias(name, "main")):
            with pytest.raises(ValueError, match="there is a host 'API' already"):
                add("API")


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (OSError, TypeError) as error:
        return type(error), str(error)


def address(*arguments: Any, **options: Any) -> Callable[[], object]:
    """Return a call of getaddrinfo for one type of sockets."""
    return lambda: socket.getaddrinfo(*arguments, **{"type": STREAM, **options})


def name(*arguments: Any) -> Callable[[], object]:
    return lambda: socket.getnameinfo(*arguments)


NUMBERS = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
PLAIN = {"flags": socket.AI_NUMERICHOST}

LIKE_REAL_ONES: list[Callable[[], object]] = [
    *(address(host, 80, **PLAIN) for host in ("localhost", b"localhost", "a.b", "10.0.0.1", "0::1")),
    *(address("127.0.0.1", port) for port in ("80", b"80", None, "no-such", 8.0, -1)),
    *(address(host, 1) for host in ("127.1", "::ffff:1.2.3.4", "2001:DB8::1", 1, "")),
    *(address(host, 1, socket.AF_INET6) for host in ("127.0.0.1", "::1", "::ffff:1.2.3.4")),
    *(address(host, 1, socket.AF_INET) for host in ("127.0.0.1", "::1", "::ffff:1.2.3.4")),
    *(address("127.0.0.1", 1, proto=proto) for proto in (socket.IPPROTO_TCP, socket.IPPROTO_UDP)),
    address("127.0.0.1", 1, type=77),
    address("127.0.0.1", 1, socket.AF_UNIX),
    address("127.0.0.1", "http", flags=socket.AI_NUMERICSERV),
    address("127.0.0.1", 1, flags=socket.AI_CANONNAME),
    address(None, None),
    lambda: socket.gethostbyname("::1"),
    *(name(at, NUMBERS) for at in (("127.0.0.1", 80), ("::1", 80, 0, 0), ("localhost", 80), ("127.0.0.1", 80, 0, 0))),
    *(name(at, NUMBERS) for at in (["127.0.0.1", 80], ("127.0.0.1",), ("127.0.0.1", "80"), ("127.0.0.1", 70_000))),
    *(name(("127.0.0.1", port), socket.NI_NUMERICHOST) for port in (80, 49_999)),
    name(("127.0.0.1", 53), socket.NI_NUMERICHOST | socket.NI_DGRAM),
]


@pytest.mark.parametrize("call", LIKE_REAL_ONES)
def test_what_needs_no_other_machine_is_answered_as_by_the_operating_system(call: Callable[[], object]) -> None:
    real = outcome(call)
    with Simulation(1):
        assert outcome(call) == real


def test_an_address_without_a_host_has_no_name() -> None:
    with Simulation(1):
        assert socket.getnameinfo(("10.9.9.9", 80), socket.NI_NUMERICSERV) == ("10.9.9.9", "80")
        with pytest.raises(socket.gaierror, match="Name or service not known"):
            socket.getnameinfo(("10.9.9.9", 80), socket.NI_NAMEREQD)
        assert socket.gethostbyaddr("::1")[0] == "localhost"


@pytest.mark.parametrize(
    ("family", "address", "error", "message"),
    [
        (socket.AF_INET, ("::1", 80), socket.gaierror, "Address family for hostname not supported"),
        (socket.AF_INET6, ("127.0.0.1", 80), socket.gaierror, "Address family for hostname not supported"),
        (socket.AF_INET, ("127.0.0.1", "80"), TypeError, "cannot be interpreted as an integer"),
        (socket.AF_INET, ("127.0.0.1",), TypeError, r"AF_INET address must be a pair \(host, port\)"),
        (socket.AF_INET, ("127.0.0.1", 80, 0, 0), TypeError, r"AF_INET address must be a pair \(host, port\)"),
        (socket.AF_INET, ["127.0.0.1", 80], TypeError, "AF_INET address must be tuple, not list"),
        (socket.AF_INET6, ("::1",), TypeError, "AF_INET6 address must be a tuple"),
        (socket.AF_INET, (1, 80), TypeError, "str, bytes or bytearray expected, not int"),
        (socket.AF_INET, ("127.0.0.1", 70_000), OverflowError, "port must be 0-65535"),
    ],
)
@pytest.mark.parametrize("simulated", [False, True])
def test_a_bad_address_is_an_error(simulated: bool, family: int, address: Any, error: type, message: str) -> None:
    with Simulation(1) if simulated else nullcontext(), socket.socket(family) as sock:
        for call in (sock.bind, sock.connect):
            with pytest.raises(error, match=message):
                call(address)


def test_without_a_simulation_names_are_the_real_ones() -> None:
    before = socket.gethostname()
    with Simulation(1):
        assert socket.gethostname() == "main"
    assert socket.gethostname() == before


def test_an_allowed_name_is_looked_up_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_socket, "gethostbyname", lambda name: {"elsewhere": "192.0.2.7"}[name])
    with Simulation(1, allow=["network"]):
        assert socket.gethostbyname("elsewhere") == "192.0.2.7"


def test_outside_a_simulation_the_replaced_names_are_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_socket, "gethostbyname", lambda name: {"elsewhere": "192.0.2.7"}[name])
    with standard.replaced():
        assert socket.gethostbyname("elsewhere") == dns.gethostbyname("elsewhere") == "192.0.2.7"
        assert dhaga_socket.getaddrinfo("127.0.0.1", 1, type=socket.SOCK_STREAM)[0][4] == ("127.0.0.1", 1)
