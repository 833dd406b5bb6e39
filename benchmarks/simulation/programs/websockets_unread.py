"""A server closes a connection with unread messages: its threads wait for each other."""

import contextlib
import threading

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve


def receive_one(connection):
    connection.recv()


with serve(receive_one, "127.0.0.1", 0) as server:
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    port = server.socket.getsockname()[1]
    with connect(f"ws://127.0.0.1:{port}") as client, contextlib.suppress(ConnectionClosed):
        for number in range(3):
            client.send(str(number))
    server.shutdown()
    serving.join()
