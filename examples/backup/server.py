"""The server: one worker per connection answers the requests in their order.

The server greets first, with its version and a nonce; the client answers with the nonce signed by the token. Then a
request is [method, argument, ...] and its reply ["ok", value] or ["error", text]; a client may send several requests
before it reads the replies. After a malformed frame the connection is closed: the next frame's beginning is unknown.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from .catalogue import LATEST, Catalogue
from .chunks import DIGEST_SIZE
from .store import Store
from .tree import Entry
from .wire import FRAME_LIMIT, GREETING_LIMIT, VERSION, BackupError, Disconnected, Refused, Wire, WireError, sign
from .workers import Unit

GREETING_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 900.0  # a client with a bandwidth limit may be silent for minutes
STOP_SECONDS: Final = 5.0
MOST_CONNECTIONS: Final = 10_000  # per thread; more wait until one ends
GET_BYTES: Final = FRAME_LIMIT // 2  # a reply with chunks stops after it
LONGEST_NAME: Final = 200
MOST_NAMES: Final = 10_000  # in one request; SQLite allows 32,766 parameters

log: Final = logging.getLogger("backup.server")


class Server:
    """Serves one store and its catalogue to any number of clients."""

    def __init__(self, unit: Unit, store: Store, catalogue: Catalogue, token: str = "") -> None:
        self.unit = unit
        self.store = store
        self.catalogue = catalogue
        self.token = token
        self._stopping = False
        self._sockets: set[Any] = set()
        self._ended = unit.threading.Condition()

    def accept(self, listener: Any, start: Callable[..., object]) -> None:
        """Accept connections and start a worker for each, until `stop`.

        Parks: until a client connects.
        """
        while not self._stopping:
            try:
                sock, address = listener.accept()
            except OSError as error:
                log.warning("cannot accept a connection: %s", error)
                self.unit.time.sleep(0.1)  # no free descriptors: wait until some are closed
            else:
                if self._admit(sock):
                    start(self.serve, sock, address)

    def serve(self, sock: Any, address: Any) -> None:
        """Serve one connection to its end."""
        session = Session(self, Wire(sock))
        try:
            session.run()
        except Disconnected:
            pass
        except (OSError, BackupError) as error:
            log.warning("%s: %s", address[0], error)
        except Exception:
            log.exception("%s: a request failed", address[0])
        finally:
            session.close()
            with self._ended:
                self._sockets.discard(sock)
                self._ended.notify_all()

    def _admit(self, sock: Any) -> bool:
        with self._ended:
            if self._stopping:
                sock.close()
                return False
            self._sockets.add(sock)
            return True

    def stop(self, address: tuple[str, int], timeout: float) -> None:
        """Shut down every connection, and wait until the workers have ended."""
        with self._ended:
            self._stopping = True
        self.unit.socket.create_connection(address).close()  # wakes the accept loop
        with self._ended:
            for sock in self._sockets:
                _cut(sock)
            self._ended.wait_for(lambda: not self._sockets, timeout)


def _cut(sock: Any) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is shut down already
        pass


@contextmanager
def serving(unit: Unit, root: Path, address: tuple[str, int], token: str, threads: int) -> Iterator[tuple[str, int]]:
    """Serve a store while the block runs.

    Returns: the address; port 0 was replaced by a free port.
    Raises: BackupError if the store or the address cannot be used.
    """
    with ExitStack() as stack:
        store = Store(root, unit)
        stack.callback(store.close)
        catalogue = Catalogue(root / "catalogue.sqlite", unit)
        stack.callback(catalogue.close)
        listener = stack.enter_context(_listen(unit, address))
        group = unit.group(threads, MOST_CONNECTIONS)
        stack.callback(group.stop, STOP_SECONDS)
        server = Server(unit, store, catalogue, token)
        place: tuple[str, int] = listener.getsockname()[:2]
        acceptor = group.start(server.accept, listener, group.start)
        stack.callback(unit.futures.wait, [acceptor], STOP_SECONDS)
        stack.callback(server.stop, place, STOP_SECONDS)
        yield place


def _listen(unit: Unit, address: tuple[str, int]) -> Any:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        return unit.socket.create_server(address, family=family, backlog=1024)
    except OSError as error:
        raise BackupError(f"cannot listen on {address[0]} port {address[1]}: {error.strerror or error}") from None


class Session:
    """One client's connection."""

    def __init__(self, server: Server, wire: Wire) -> None:
        self.server = server
        self.wire = wire
        self.draft: int | None = None
        self.entries = 0
        self.name = ""

    def run(self) -> None:
        """Greet, then answer until the client goes.

        Raises: Disconnected at the end, OSError and BackupError when it ends badly.
        """
        sock = self.wire.sock
        sock.setsockopt(self.server.unit.socket.IPPROTO_TCP, self.server.unit.socket.TCP_NODELAY, 1)
        sock.settimeout(GREETING_SECONDS)
        try:
            self._greet()
            sock.settimeout(IDLE_SECONDS)
            while True:
                self.wire.send(self._answer(self.wire.receive()))
        except (WireError, Refused) as error:
            self.wire.refuse(["error", str(error)])
            raise

    def close(self) -> None:
        """Close the connection, and discard its uncommitted drafts."""
        self.wire.close()
        if self.draft is not None:
            self.server.catalogue.discard(self.draft)

    def _greet(self) -> None:
        nonce = secrets.token_bytes(16)
        self.wire.send(["dhaga-backup", VERSION, nonce])
        self.wire.limit = GREETING_LIMIT
        reply = self.wire.receive()
        if not (isinstance(reply, list) and len(reply) == 2 and reply[0] == "hello" and isinstance(reply[1], bytes)):
            raise WireError("bad greeting: expected hello and a signature")
        if not hmac.compare_digest(reply[1], sign(self.server.token, nonce)):
            raise Refused("wrong token: pass the one the server was started with (--token or BACKUP_TOKEN)")
        self.wire.limit = FRAME_LIMIT
        self.wire.send(["ok", None])

    def _answer(self, request: object) -> list[object]:
        try:
            method, arguments = _parse(request)
            return ["ok", method(self, *arguments)]
        except WireError:
            raise
        except BackupError as error:
            return ["error", str(error)]
        except (OSError, sqlite3.Error) as error:
            log.error("%s", error)
            return ["error", f"the server's store failed: {error}"]

    # ---- requests ----

    def have(self, digests: list[bytes]) -> list[bool]:
        """Return for each chunk whether it need not be sent."""
        return [self.server.store.has(_digest(digest)) for digest in digests]

    def put(self, digest: bytes, packed: bytes) -> bool:
        """Store a chunk. Returns: whether it was new."""
        return self.server.store.put(_digest(digest), packed)

    def get(self, digests: list[bytes]) -> list[bytes]:
        """Return the first chunks in their stored form, as many as fit into a frame, but at least one."""
        found: list[bytes] = []
        room = GET_BYTES
        for digest in digests:
            found.append(self.server.store.get(_digest(digest)))
            room -= len(found[-1])
            if room < 0:
                break
        return found

    def check(self, digests: list[bytes]) -> list[str]:
        """Return for each chunk a description of its damage, or an empty text."""
        return self.server.store.check([_digest(digest) for digest in digests])

    def begin(self, name: str, host: str, source: str) -> bool:
        """Start a snapshot. Returns: whether it is needed; False if it was committed and only the reply was lost.

        A client that begins before it sends chunks shows that it is at work, as long as its connection is open. If it
        begins the same name again, nothing changes.
        """
        if self.draft is not None:
            if name != self.name or self.entries:
                raise Refused("this connection has begun a snapshot already")
            return True
        if name == LATEST or not name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise Refused(f"{name[:40]!r} cannot name a snapshot: use 1 to {LONGEST_NAME} letters, and not `{LATEST}`")
        self.draft = self.server.catalogue.begin(name, host, source)
        self.name = name
        self.entries = 0
        return self.draft is not None

    def add(self, values: list[object]) -> None:
        """Add entries to the snapshot that was begun."""
        entries = [Entry.from_wire(value) for value in values]
        self.server.catalogue.add(self._draft(), self.entries, entries)
        self.entries += len(entries)

    def commit(self, entries: int) -> None:
        """Make the chunks durable, then the snapshot."""
        draft = self._draft()
        if entries != self.entries:
            raise Refused(f"the snapshot has {self.entries} entries, not {entries}")
        self.server.store.settle(self.server.catalogue.digests(draft))
        self.server.catalogue.commit(draft)
        self.draft = None
        log.info("committed snapshot %s", self.name)

    def snapshots(self) -> list[tuple[object, ...]]:
        """Return the committed snapshots."""
        return [astuple(snapshot) for snapshot in self.server.catalogue.snapshots()]

    def standing(self, names: list[object]) -> list[tuple[object, ...] | None]:
        """Return for each name whether it is committed, with its files and bytes; None if no client works on it."""
        texts = [name for name in names if isinstance(name, str)]
        if len(texts) < len(names) or len(texts) > MOST_NAMES:
            raise WireError(f"bad request: standing takes at most {MOST_NAMES} names")
        return [astuple(found) if found else None for found in self.server.catalogue.standing(texts)]

    def find(self, name: str) -> tuple[int, str]:
        """Look up a snapshot's key and whole name."""
        return self.server.catalogue.find(name)

    def page(self, key: int, first: int) -> list[tuple[object, ...]]:
        """Return the entries of a snapshot from a number on."""
        return [entry.to_wire() for entry in self.server.catalogue.page(key, first)]

    def _draft(self) -> int:
        if self.draft is None:
            raise Refused("no snapshot was begun on this connection")
        return self.draft


METHODS: Final[dict[object, tuple[Callable[..., object], tuple[type, ...]]]] = {
    "have": (Session.have, (list,)),
    "put": (Session.put, (bytes, bytes)),
    "get": (Session.get, (list,)),
    "check": (Session.check, (list,)),
    "begin": (Session.begin, (str, str, str)),
    "add": (Session.add, (list,)),
    "commit": (Session.commit, (int,)),
    "snapshots": (Session.snapshots, ()),
    "standing": (Session.standing, (list,)),
    "find": (Session.find, (str,)),
    "page": (Session.page, (int, int)),
}


def _parse(request: object) -> tuple[Callable[..., object], list[Any]]:
    if not (isinstance(request, list) and request and isinstance(request[0], str)):
        raise WireError("bad request: expected a method and its arguments")
    name, *arguments = request
    if name not in METHODS:
        raise WireError(f"bad request: there is no method {name[:40]!r}")
    method, shape = METHODS[name]
    if tuple(map(type, arguments)) != shape or any(type(each) is int and abs(each) >= 2**63 for each in arguments):
        raise WireError(f"bad request: {name} takes {', '.join(kind.__name__ for kind in shape) or 'no argument'}")
    return method, arguments


def _digest(value: object) -> bytes:
    if not (isinstance(value, bytes) and len(value) == DIGEST_SIZE):
        raise WireError(f"bad request: a digest has {DIGEST_SIZE} bytes")
    return value
