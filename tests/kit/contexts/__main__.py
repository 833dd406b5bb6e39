"""A program that shows the states that code sees of its starter and of other users, for each way to start code.

``python -m tests.kit.contexts standard | faces | ours | gevents | eventlets`` prints JSON: for each way and place, and
for each user, the states that the code has seen. Three users come one after another. Each user sets every state to the
user's name, and starts code. This code notes the states that it sees, and leaves its own states behind. A server is
started with the states of ``starter``.
"""

from __future__ import annotations

import sys

if sys.argv[1] == "gevents":
    from gevent import monkey

    monkey.patch_all()
elif sys.argv[1] == "eventlets":
    import eventlet

    eventlet.monkey_patch()

import asyncio
import http.client
import importlib
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context

from . import Seen, Table, standard
from .modules import threading
from .states import leave, see
from .ways import PATIENCE, Serve, Start, servers, ways

USERS = ("alice", "bob", "carol")


def visit(user: str, start: Start, seen: Seen) -> object:
    """Set the states of a user, and start code. Returns: the result of the start, which may be awaitable."""

    def work(*_: object) -> None:
        seen[user] = see()
        leave(f"{user}'s worker")

    leave(user)
    return start(work)


def from_main_code(start: Start, seen: Seen) -> None:
    for user in USERS:
        Context().run(visit, user, start, seen)


def from_threads(start: Start, seen: Seen) -> None:
    for user in USERS:
        thread = threading.Thread(target=visit, args=(user, start, seen))
        thread.start()
        thread.join(PATIENCE)


def from_coroutines(start: Start, seen: Seen) -> None:
    async def visitor(user: str) -> None:
        outcome = visit(user, start, seen)
        if inspect.isawaitable(outcome):
            await outcome

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        for user in USERS:
            await asyncio.create_task(visitor(user))

    asyncio.run(main())


def from_clients(serve: Serve) -> Seen:
    """Return the states that the requests of two connections see. The first connection carries two users."""
    seen: Seen = {}

    def app(user: str) -> None:
        seen[user] = see()
        leave(user)

    leave("starter")
    with serve(app) as address:
        for users in (USERS[:2], USERS[2:]):
            client = http.client.HTTPConnection(*address, timeout=PATIENCE)
            for user in users:
                client.request("GET", f"/{user}")
                client.getresponse().read()
            client.close()
    return seen


PLACES = {"main code": from_main_code, "thread": from_threads, "coroutine": from_coroutines}


def main() -> None:
    table = sys.argv[1]
    if table == "faces":
        standard.threads()
    else:
        importlib.import_module(f".{table}", __package__).all_ways()
    seen: Table = {}
    for name, (opens, places) in ways.items():
        # In a coroutine, the waits of gevent and eventlet would block the loop.
        for place in (each for each in places if each != "coroutine" or table in ("standard", "ours")):
            seen[f"{name}, from {place}"] = {}
            with opens() as start:
                PLACES[place](start, seen[f"{name}, from {place}"])
    for name, serve in servers.items():
        seen[name] = Context().run(from_clients, serve)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
