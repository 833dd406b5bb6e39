"""cassandra-driver: 20 threads wait at once for their queries, over one connection whose loop is libev's.

The server speaks as much of CQL 4 as the driver needs to connect; it answers the queries once all of them are there.
"""

import socket
import struct
import threading
import uuid

from cassandra.cluster import Cluster

COUNT = 20
ROUNDS = 3
LONG = b"x" * 200_000
RESPONSE = 0x84
OPTIONS, SUPPORTED, QUERY, RESULT, READY = 5, 6, 7, 8, 2
TEXT, UUID, INET = 0x0D, 0x0C, 0x10
LOCAL = {
    "key": (TEXT, b"local"),
    "cluster_name": (TEXT, b"packages"),
    "data_center": (TEXT, b"here"),
    "rack": (TEXT, b"one"),
    "partitioner": (TEXT, b"org.apache.cassandra.dht.Murmur3Partitioner"),
    "release_version": (TEXT, b"3.11.0"),
    "host_id": (UUID, uuid.uuid4().bytes),
    "schema_version": (UUID, uuid.uuid4().bytes),
    "rpc_address": (INET, socket.inet_aton("127.0.0.1")),
}
together = threading.Barrier(COUNT)


def text(words):
    return struct.pack(">H", len(words)) + words.encode()


def rows(columns, count=1):
    head = struct.pack(">iii", 2, 1, len(columns)) + text("system") + text("local")
    types = b"".join(text(name) + struct.pack(">H", kind) for name, (kind, _) in columns.items())
    values = b"".join(struct.pack(">i", len(value)) + value for _, value in columns.values())
    return head + types + struct.pack(">i", count) + values * count


def supported():
    return struct.pack(">H", 2) + text("CQL_VERSION") + b"\0\1" + text("3.4.5") + text("COMPRESSION") + b"\0\0"


def serve(client):
    sending = threading.Lock()

    def send(stream, operation, body):
        with sending:
            client.sendall(struct.pack(">BBhBi", RESPONSE, 0, stream, operation, len(body)) + body)

    def answer_together(stream):
        together.wait(20)
        send(stream, RESULT, rows({"n": (TEXT, LONG)}))

    with client, client.makefile("rb") as file:
        while head := file.read(9):
            _, _, stream, operation, length = struct.unpack(">BBhBi", head)
            body = file.read(length)
            if operation == OPTIONS:
                send(stream, SUPPORTED, supported())
            elif operation != QUERY:
                send(stream, READY, b"")
            elif b"together" in body:
                threading.Thread(target=answer_together, args=[stream], daemon=True).start()
            else:
                send(
                    stream, RESULT, rows(LOCAL) if b"system.local" in body else rows({"peer": LOCAL["rpc_address"]}, 0)
                )


def accept():
    while True:
        threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, daemon=True).start()
cluster = Cluster(
    ["127.0.0.1"],
    port=listener.getsockname()[1],
    protocol_version=4,
    schema_metadata_enabled=False,
    token_metadata_enabled=False,
)
session = cluster.connect()
answers = []
for _ in range(ROUNDS):
    threads = [
        threading.Thread(target=lambda: answers.append(session.execute("SELECT together").one()[0]))
        for _ in range(COUNT)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
cluster.shutdown()
assert answers == [LONG.decode()] * COUNT * ROUNDS
print("peak", COUNT)
