"""logging: 200 threads log through a QueueHandler with its QueueListener, and through SocketHandlers to a server."""

import logging
import logging.handlers
import pickle
import queue
import socketserver
import struct
import threading

COUNT = 200
listened, received = [], []
connected, all_received = threading.Barrier(COUNT), threading.Event()


class Listened(logging.Handler):
    def emit(self, record):
        listened.append((record.threadName, record.getMessage()))


class Receiver(socketserver.StreamRequestHandler):
    def handle(self):
        connected.wait()
        while head := self.rfile.read(4):
            record = logging.makeLogRecord(pickle.loads(self.rfile.read(*struct.unpack(">L", head))))
            received.append((record.threadName, record.getMessage()))
            if len(received) == COUNT * 2:
                all_received.set()


class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 1000


records = queue.Queue()
listener = logging.handlers.QueueListener(records, Listened())
shared = logging.getLogger("shared")
shared.setLevel(logging.INFO)
shared.propagate = False
shared.addHandler(logging.handlers.QueueHandler(records))


def work(n):
    handler = logging.handlers.SocketHandler(*server.server_address)
    own = logging.getLogger(f"own.{n}")
    own.setLevel(logging.INFO)
    own.propagate = False
    own.addHandler(handler)
    for round in range(2):
        shared.info("number %d, round %d", n, round)
        own.info("number %d, round %d", n, round)
    own.removeHandler(handler)
    handler.close()


with Server(("127.0.0.1", 0), Receiver) as server:
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    listener.start()
    threads = [threading.Thread(target=work, args=(n,), name=f"worker-{n}") for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listener.stop()
    assert all_received.wait(30)
    server.shutdown()
    serving.join()
expected = sorted((f"worker-{n}", f"number {n}, round {round}") for n in range(COUNT) for round in range(2))
assert sorted(listened) == expected
assert sorted(received) == expected
print("peak", COUNT)
