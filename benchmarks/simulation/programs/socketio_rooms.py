"""Two clients connect to a namespace that is new: each makes its dict of rooms, and one client is lost."""

import itertools
import threading
import types

from socketio.base_manager import BaseManager

ids = map(str, itertools.count())
manager = BaseManager()
manager.server = types.SimpleNamespace(eio=types.SimpleNamespace(generate_id=lambda: next(ids)))
connected = []


def connect(client):
    connected.append(manager.connect(client, "/chat"))


threads = [threading.Thread(target=connect, args=(client,)) for client in ("one", "two")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all(manager.is_connected(session, "/chat") for session in connected), "a client is lost"
