"""An endpoint of the inspector for platforms without Unix sockets: a port of the loopback interface, and a secret.

Every user of the machine can connect to the port. A file that only this user may read contains the port and the secret.
To prove that it knows the secret, each side sends the HMAC (RFC 2104) of a nonce from the other side. The secret is
never sent, so a process that got the port of an ended process learns nothing.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
from pathlib import Path

from ..._kernel import originals
from .._helper_thread import idle
from .ended import files_of_ended
from .not_answered import ADVICE, NotAnswered

LOOPBACK = "127.0.0.1"
NONCE_BYTES = PROOF_BYTES = 32
PROOF_SECONDS = 5.0
"""Maximum number of seconds to wait for the other side's part of the proof."""

CLIENT, SERVER = b"client", b"server"
"""Each side adds its own word to the nonce, so that a proof cannot be sent back to the side that made the proof."""


class Endpoint:
    """The ``listener`` of a process; ``path`` is the file that contains its port and secret."""

    def __init__(self, pid: int) -> None:
        """Listen, and write the file. Raises: OSError."""
        folder = folder_of_user()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(folder)
        self.path = file_of(pid)
        self.secret = secrets.token_bytes(32)
        self.listener = originals.Socket(socket.AF_INET)
        try:
            self.listener.bind((LOOPBACK, 0))
            self.listener.listen()
            written = self.path.with_suffix(".new")
            told = {"port": self.listener.getsockname()[1], "secret": self.secret.hex()}
            written.unlink(missing_ok=True)
            fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                json.dump(told, file)
            written.replace(self.path)
        except BaseException:
            self.listener.close()
            raise

    def may_ask(self, connection: socket.socket) -> bool:
        """Prove the identity of this process, and return whether the client has read the file."""
        connection.settimeout(PROOF_SECONDS)
        nonce = secrets.token_bytes(NONCE_BYTES)
        with idle():
            theirs = receive(connection, NONCE_BYTES)
            connection.sendall(proof(self.secret, SERVER, theirs) + nonce)
            answer = receive(connection, PROOF_BYTES)
        connection.settimeout(None)
        return hmac.compare_digest(answer, proof(self.secret, CLIENT, nonce))


def connect(pid: int) -> socket.socket:
    """Connect to the inspector of a process. Raises: NotAnswered."""
    path = file_of(pid)
    try:
        told = json.loads(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise NotAnswered(f"process {pid} has no inspector, or is another user's: {ADVICE}") from None
    connection = originals.Socket(socket.AF_INET)
    try:
        connection.settimeout(PROOF_SECONDS)
        connection.connect((LOOPBACK, told["port"]))
        prove(connection, bytes.fromhex(told["secret"]))
        return connection
    except OSError:
        connection.close()
        raise NotAnswered(
            f"process {pid} does not answer, or {path} is left by an earlier process with that id: {ADVICE}"
        ) from None
    except BaseException:
        connection.close()
        raise


def prove(connection: socket.socket, secret: bytes) -> None:
    """Verify the process at the other end, and prove that this side has read the file. Raises: OSError."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    connection.sendall(nonce)
    answer = receive(connection, PROOF_BYTES)
    if not hmac.compare_digest(answer, proof(secret, SERVER, nonce)):
        raise ConnectionRefusedError  # raised by this side: another process has the port
    connection.sendall(proof(secret, CLIENT, receive(connection, NONCE_BYTES)))


def proof(secret: bytes, side: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, side + nonce, "sha256")


def receive(connection: socket.socket, size: int) -> bytes:
    """Receive exactly ``size`` bytes. Raises: OSError, also if the connection ends early."""
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError
        received += part
    return received


def folder_of_user() -> Path:
    """Return the folder of the files, to which Windows gives only this user and administrators access."""
    local = os.environ.get("LOCALAPPDATA")
    return Path(local or Path.home() / "AppData/Local", "dhaga")


def file_of(pid: int) -> Path:
    return folder_of_user() / f"inspector-{pid}.json"


def sweep(folder: Path) -> None:
    """Remove the files of ended processes."""
    for path in files_of_ended(folder, "inspector-", ".json"):
        path.unlink(missing_ok=True)
