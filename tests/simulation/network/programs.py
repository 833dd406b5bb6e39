"""Programs that know nothing of the simulation: standard servers and clients, and packages."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import socket
import socketserver
import ssl
import threading
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).with_name("certificate.pem")
"""Of localhost, with its key; made with trustme. RSA: its signatures have one length."""


def on_threads(*functions: Any) -> None:
    threads = [threading.Thread(target=each) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def raw_sockets() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()

    def serve() -> None:
        for _ in range(3):
            peer, _ = listener.accept()
            threading.Thread(target=echo, args=(peer,)).start()

    def echo(peer: socket.socket) -> None:
        with peer:
            while data := peer.recv(1000):
                peer.sendall(data)

    def client() -> None:
        with socket.create_connection(address) as sock:
            assert sock.getpeername() == address
            sock.sendall(b"x" * 300_000)
            sock.shutdown(socket.SHUT_WR)
            with sock.makefile("rb") as file:
                assert len(file.read()) == 300_000

    on_threads(serve, client, client, client)
    listener.close()


class Upper(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            self.wfile.write(line.upper())


def socket_server() -> None:
    with socketserver.ThreadingTCPServer(("localhost", 0), Upper) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def client() -> None:
            with socket.create_connection(server.server_address) as sock, sock.makefile("rwb") as file:
                for word in (b"one\n", b"two\n"):
                    file.write(word)
                    file.flush()
                    assert file.readline() == word.upper()

        on_threads(client, client, client)
        server.shutdown()


class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f"hello from {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def with_http_server(use: Any, context: ssl.SSLContext | None = None) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        on_threads(*[lambda number=number: use(server.server_port, number) for number in range(3)])
        server.shutdown()


def http_client() -> None:
    def use(port: int, number: int) -> None:
        connection = http.client.HTTPConnection("localhost", port)
        for each in range(3):
            connection.request("GET", f"/{number}/{each}")
            assert connection.getresponse().read() == b"hello from /%d/%d" % (number, each)
        connection.close()

    with_http_server(use)


def with_requests() -> None:
    import requests

    def use(port: int, number: int) -> None:
        with requests.Session() as session:
            for each in range(2):
                url = f"http://localhost:{port}/{number}/{each}"
                assert session.get(url, timeout=5).text == f"hello from /{number}/{each}"

    with_http_server(use)


def tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))

    def use(port: int, number: int) -> None:
        connection = http.client.HTTPSConnection("localhost", port, context=trusted)
        connection.request("GET", f"/{number}")
        assert connection.getresponse().read() == b"hello from /%d" % number
        connection.close()

    with_http_server(use, context)


def flask_under_serve() -> None:
    import flask

    from dhaga.http.wsgi import Server

    app = flask.Flask("app")

    @app.get("/<name>")
    def hello(name: str) -> str:
        return f"hello {name}"

    with Server(app, ("127.0.0.1", 0)) as server:
        port = server.address[1]

        def client(name: str) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", f"/{name}")
            assert connection.getresponse().read() == f"hello {name}".encode()
            connection.close()

        on_threads(lambda: client("a"), lambda: client("b"), lambda: client("c"))


class FakeRedis(socketserver.StreamRequestHandler):
    """Answers the commands of RESP 2: GET, SET, INCRBY; OK to all others."""

    store: dict[bytes, bytes]
    lock: threading.Lock

    def handle(self) -> None:
        while head := self.rfile.readline():
            words = []
            for _ in range(int(head[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            with self.lock:
                answer = self.answer(*words)
            self.wfile.write(answer)

    def answer(self, command: bytes, *rest: bytes) -> bytes:
        name = command.upper()
        if name == b"SET":
            self.store[rest[0]] = rest[1]
        elif name == b"GET":
            value = self.store.get(rest[0])
            return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)
        elif name == b"INCRBY":
            self.store[rest[0]] = b"%d" % (int(self.store.get(rest[0], b"0")) + int(rest[1]))
            return b":%s\r\n" % self.store[rest[0]]
        return b"+OK\r\n"


def redis_client() -> None:
    import redis

    FakeRedis.store, FakeRedis.lock = {}, threading.Lock()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), FakeRedis) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = redis.Redis(port=server.server_address[1], protocol=2)

        def count() -> None:
            for _ in range(3):
                client.incr("hits")

        on_threads(count, count, count)
        assert client.get("hits") == b"9"
        client.close()
        server.shutdown()


class FakeMySQL(socketserver.StreamRequestHandler):
    """Answers each query of the MySQL protocol with one row: the number of its connection's queries."""

    def send(self, number: int, *payloads: bytes) -> None:
        for payload in payloads:
            self.wfile.write(len(payload).to_bytes(3, "little") + bytes([number % 256]) + payload)
            number += 1

    def receive(self) -> bytes:
        head = self.rfile.read(4)
        return self.rfile.read(int.from_bytes(head[:3], "little"))

    def handle(self) -> None:
        plugin = b"mysql_native_password\0"
        abilities = 0x000A_820D  # protocol 4.1, secure connection, plugin
        greeting = b"\x0a8.0-fake\0" + bytes(4) + b"12345678\0" + (abilities & 0xFFFF).to_bytes(2, "little")
        greeting += b"\x21\2\0" + (abilities >> 16).to_bytes(2, "little") + b"\x15" + bytes(10) + b"123456789012\0"
        self.send(0, greeting + plugin)
        self.receive()
        self.send(2, b"\0\0\0\2\0\0\0")
        end, number = b"\xfe\0\0\2\0", 0
        while (query := self.receive())[:1] == b"\3":
            if query[1:].startswith(b"SELECT"):
                number += 1
                names = b"\3def" + b"\0" * 3 + b"\1n\1n"
                column = names + b"\x0c\x21\0\x14\0\0\0\xfd\0\0\0\0\0"
                self.send(1, b"\1", column, end, b"\1%d" % number, end)
            else:
                self.send(1, b"\0\0\0\2\0\0\0")


def mysql_client() -> None:
    import pymysql

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), FakeMySQL) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask() -> None:
            connection = pymysql.connect(host="127.0.0.1", port=server.server_address[1], user="me")
            with connection, connection.cursor() as cursor:
                for number in range(1, 4):
                    cursor.execute("SELECT number")
                    assert cursor.fetchone() == (str(number),)

        on_threads(ask, ask)
        server.shutdown()


def web_socket() -> None:
    import flask
    import flask_sock
    import websocket

    from dhaga.http.wsgi import Server

    app = flask.Flask("app")

    @flask_sock.Sock(app).route("/echo")
    def echo(socket: Any) -> None:
        while True:
            socket.send(socket.receive().upper())

    with Server(app, ("127.0.0.1", 0)) as server:
        port = server.address[1]

        def talk() -> None:
            connection = websocket.create_connection(f"ws://127.0.0.1:{port}/echo")
            for word in ("one", "two"):
                connection.send(word)
                assert connection.recv() == word.upper()
            connection.close()

        on_threads(talk, talk)


def asyncio_client() -> None:
    with socketserver.ThreadingTCPServer(("localhost", 0), Upper) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        async def ask(word: bytes) -> None:
            reader, writer = await asyncio.open_connection("localhost", server.server_address[1])
            writer.write(word + b"\n")
            assert await reader.readline() == word.upper() + b"\n"
            writer.close()
            await writer.wait_closed()

        async def main() -> None:
            await asyncio.gather(ask(b"one"), ask(b"two"))

        def run() -> None:
            asyncio.run(main())

        on_threads(run, run)
        server.shutdown()


def datagrams() -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    address = server.getsockname()

    def serve() -> None:
        for _ in range(6):
            data, peer = server.recvfrom(100)
            server.sendto(data.upper(), peer)

    def client() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(address)
            for word in (b"one", b"two", b"three"):
                sock.send(word)
                assert sock.recv(100) == word.upper()

    on_threads(serve, client, client)
    server.close()


PROGRAMS = [
    raw_sockets, socket_server, http_client, with_requests, tls, flask_under_serve, redis_client, asyncio_client,
    datagrams, mysql_client, web_socket,
]  # fmt: skip
