"""Sockets, selectors and TLS of patched programs, and those that a program has made before the patch."""

from __future__ import annotations

from tests.kit.scripts import prints

HEAD = """
import socket, ssl
from tests.kit.certificates import authority, certificate
old, peer = socket.socketpair()
client, server = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
authority().configure_trust(client)
certificate().configure_cert(server)

import dhaga.monkey
dhaga.monkey.patch()
import os, select, selectors, threading, time

def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread
"""


def test_a_socket_from_before_the_patch_is_waited_for_without_stopping_others() -> None:
    assert prints(
        HEAD
        + """
with selectors.DefaultSelector() as selector:
    selector.register(old, selectors.EVENT_READ)
    for wait in (lambda: select.select([old], [], [], 60)[0], lambda: [key.fileobj for key, _ in selector.select(60)]):
        in_thread(lambda: (time.sleep(0.01), peer.send(b"x")))
        print(wait() == [old], old.recv(1))
"""
    ) == 2 * ["True b'x'"]


def test_contexts_and_sockets_from_before_the_patch_make_connections_that_park() -> None:
    assert prints(
        HEAD
        + """
def serve():
    with server.wrap_socket(peer, server_side=True) as connection:
        connection.sendall(connection.recv(100).upper())

serving = in_thread(serve)
with client.wrap_socket(old, server_hostname="localhost") as connection:
    connection.sendall(b"abc")
    print(connection.recv(100), isinstance(connection, ssl.SSLSocket), type(client) is ssl.SSLContext)
serving.join()
"""
    ) == ["b'ABC' True True"]


def test_programs_may_derive_classes_from_sockets_and_contexts() -> None:
    assert prints(
        HEAD
        + """
class Counting(socket.socket):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.received = 0

    def recv(self, *args):
        data = super().recv(*args)
        self.received += len(data)
        return data

class Context(ssl.SSLContext):
    pass

socket.setdefaulttimeout(5)
with socket.create_server(("127.0.0.1", 0)) as listener, Counting() as sock:
    serving = in_thread(lambda: listener.accept()[0].sendall(b"abc"))
    sock.connect(listener.getsockname())
    print(sock.recv(3), sock.received, sock.gettimeout(), isinstance(sock, socket.socket))
    serving.join()
print(Context(ssl.PROTOCOL_TLS_CLIENT).sslsocket_class.__module__)
"""
    ) == ["b'abc' 3 5.0 True", "dhaga.ssl"]


def test_a_look_up_in_one_thread_stops_no_other() -> None:
    assert prints(
        HEAD
        + """
def slow(*args):
    while len(turns) <= 5:
        native_sleep(0.001)
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

from dhaga._iowait import dns
native_sleep, dns.standard_getaddrinfo = dhaga.monkey.original("time", "sleep"), slow
turns = []
looking = in_thread(lambda: turns.append(socket.getaddrinfo("name", 1)[0][4]))
while looking.is_alive():
    turns.append(1)
    time.sleep(0.001)
print(turns[-1])
"""
    ) == ["('127.0.0.1', 1)"]
