"""socketserver.ThreadingTCPServer: 200 clients, a thread each, and a handler's thread for each of them."""

import socket
import socketserver
import threading

COUNT = 200
served = threading.Barrier(COUNT)
answers = {}


class Handler(socketserver.StreamRequestHandler):
    timeout = 20

    def handle(self):
        for line in self.rfile:
            if line == b"together\n":
                served.wait()
            self.wfile.write(line.upper())


class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 1000
    daemon_threads = False


def work(n):
    with socket.create_connection(server.server_address, timeout=20) as client, client.makefile("rwb") as stream:
        for line in (b"together\n", b"hello %d\n" % n):
            stream.write(line)
            stream.flush()
            answers.setdefault(n, []).append(stream.readline())


with Server(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.serve_forever, args=(0.05,)).start()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.shutdown()
assert threading.active_count() == 1, threading.enumerate()
assert answers == {n: [b"TOGETHER\n", b"HELLO %d\n" % n] for n in range(COUNT)}
print("peak", COUNT)
