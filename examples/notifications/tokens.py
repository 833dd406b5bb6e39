"""Who may use the server: one token for each client, with the name under which it is known."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from .messages import Refused

ANYBODY = "anybody"


class Tokens:
    """The tokens and whose they are; without any, every client may come.

    They are kept and compared as keyed digests: how long that takes tells nothing about a token.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self.key = secrets.token_bytes(32)
        self.names = {self.digest(token): name for token, name in names.items()}

    def __repr__(self) -> str:
        return f"<Tokens of {len(self.names)} clients>"

    @classmethod
    def read(cls, path: Path) -> Tokens:
        """Read a file of lines TOKEN:NAME; empty ones and those with # do not count. Raises: OSError, ValueError."""
        names = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            token, colon, name = line.strip().partition(":")
            if not line.strip() or line.startswith("#"):
                continue
            if not token or not colon or not name or token in names:
                raise ValueError(f"{path}, line {number}: write TOKEN:NAME, each token once")
            names[token] = name
        if not names:
            raise ValueError(f"{path} has no tokens: without --tokens every client may come")
        return cls(names)

    def digest(self, token: str) -> bytes:
        return hmac.digest(self.key, token.encode(errors="surrogateescape"), "sha256")

    def holder(self, token: str) -> str:
        """Tell whose token this is. Raises: Refused."""
        if not self.names:
            return ANYBODY
        mine = self.digest(token)
        name = self.names.get(mine)
        if name is None:
            raise Refused(401, "a token is needed, and this is none" if token else "a token is needed")
        return name
