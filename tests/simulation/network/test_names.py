"""The names of a simulated network: what ``socket`` answers about hosts."""

from __future__ import annotations

import _socket
import socket

import pytest

from dhaga import socket as dhaga_socket
from dhaga._iowait import dns
from dhaga.simulation import Simulation
from dhaga.simulation._standard import standard


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
