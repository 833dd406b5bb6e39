"""Clients break off: a worker thread closes their socket, which the main loop is about to select."""

import socket
import struct
import threading
import time

import waitress.server

BROKEN_OFF = struct.pack("ii", 1, 0)


def answer(environ, start_response):
    start_response("200 OK", [("Content-Length", "200000")])
    for _ in range(20):
        yield b"x" * 10000


server = waitress.server.create_server(answer, host="127.0.0.1", port=0, threads=2, send_bytes=1)
failures = []


def serve():
    try:
        server.run()
    except OSError as error:
        failures.append(error)


def ask():
    with socket.create_connection(("127.0.0.1", server.effective_port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(1000)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, BROKEN_OFF)


loop = threading.Thread(target=serve, daemon=True)
loop.start()
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
time.sleep(1)
if failures:
    raise failures[0]
