"""A client breaks off before the server has made a channel of its connection: the main loop asks for it for ever."""

import socket
import struct
import threading
import time

import waitress.server

BROKEN_OFF = struct.pack("ii", 1, 0)


def answer(environ, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]


server = waitress.server.create_server(answer, host="127.0.0.1", port=0, threads=1)


def ask():
    with socket.create_connection(("127.0.0.1", server.effective_port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, BROKEN_OFF)


threading.Thread(target=server.run, daemon=True).start()
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
time.sleep(10)
assert not server.active_channels, f"{len(server.active_channels)} channels of clients that are gone"
